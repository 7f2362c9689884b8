// The verifier as a document of its own, which needs no service and no network.

import { h } from "../element.js";
import { verifierPanel } from "./panel.js";

document.getElementById("main").append(
  h(
    "div",
    { class: "stack" },
    h("h1", {}, "Verify"),
    h(
      "p",
      { class: "prose" },
      "Drop what you were given, and paste a key that you trust. Everything happens in this browser: this file asks no network for anything, and nothing that you drop leaves it.",
    ),
    await verifierPanel(),
  ),
);
