// One memory: its name, its numbers, and the views of it.

import { announce, h } from "./element.js";
import { count, plural } from "./numbers.js";
import { addressOf, get } from "./session.js";

const VIEWS = [
  ["map", "Map", () => import("./map.js")],
  ["ask", "Ask", () => import("./query.js")],
  ["certificates", "Certificates", () => import("./certificates.js")],
  ["erase", "Erase", () => import("./erase.js")],
  ["ledger", "Receipts", () => import("./ledger.js")],
];

export async function view([address, which], signal) {
  const [, label, load] = VIEWS.find(([key]) => key === which);
  const [memory, module] = await Promise.all([get(`/v1/memories/${encodeURIComponent(address)}`, signal), load()]);
  const numbers = h("p", { class: "muted numbers" }, figures(memory));
  // A view that edits or watches the memory brings the numbers above it up to date.
  const refresh = (newer) => {
    const text = figures(newer);
    if (numbers.textContent !== text) announce(text);
    numbers.textContent = text;
  };
  const body = await module.panel(memory, { signal, refresh });
  const content = h(
    "div",
    { class: "stack" },
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Memories"), " / "),
    h("div", { class: "title-row" }, h("h1", {}, memory.name), numbers),
    h(
      "nav",
      { class: "subnav", "aria-label": "This memory" },
      VIEWS.map(([key, text]) =>
        h("a", { href: `#/m/${addressOf(memory)}/${key}`, "aria-current": key === which ? "page" : null }, text),
      ),
    ),
    body,
  );
  return { title: `${memory.name}: ${label}`, content };
}

function figures(memory) {
  const pruned = memory.archived + memory.forgotten;
  return [
    plural(memory.size, "live entry", "live entries"),
    pruned ? `${count(pruned)} pruned` : null,
    `${count(memory.deletable)} more can be deleted`,
    `edit ${count(memory.edit)}`,
  ]
    .filter(Boolean)
    .join(" · ");
}
