// Verifying files from anywhere, with a key from anywhere: the same verifier that is handed out as one file.

import { h } from "./element.js";
import { storeKeys } from "./ledger/ledger_head.js";
import { session, url } from "./session.js";
import { verifierPanel } from "./verifier/panel.js";

export async function view() {
  const content = h(
    "div",
    { class: "stack" },
    h("h1", {}, "Verify"),
    h(
      "p",
      { class: "prose" },
      "Everything is checked by your browser, and nothing that you drop leaves it. Whoever does not trust this page opens ",
      h("a", { href: url("/page/verifier.html"), download: "expunge-verifier.html" }, "the verifier that is one file"),
      " without a network, from a source that they do trust, or runs ",
      h("code", {}, "expunge verify"),
      ": same files, same answers.",
    ),
    await verifierPanel({ storeKeys: session.about === null ? null : storeKeys() }),
  );
  return { title: "Verify", content };
}
