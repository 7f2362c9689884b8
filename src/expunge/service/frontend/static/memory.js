// One memory: its name, its numbers, and the views of it.

import { announce, h } from "./element.js";
import { count, plural } from "./numbers.js";
import { addressOf, get, session } from "./session.js";

const reads = () => session.may("read");

// Each with whether the token may see it, and its module.
const VIEWS = [
  ["map", "Map", reads, () => import("./engineer/map.js")],
  ["ask", "Ask", reads, () => import("./engineer/query.js")],
  ["certificates", "Certificates", reads, () => import("./engineer/certificates.js")],
  ["erase", "Erase", () => reads() && session.may("erase"), () => import("./officer/erase.js")],
  ["ledger", "Receipts", () => session.may("read", "audit"), () => import("./ledger/ledger.js")],
];

export async function view([address, which], signal) {
  const memory = await get(`/v1/memories/${encodeURIComponent(address)}`, signal);
  const offered = VIEWS.filter(([, , may]) => may());
  const chosen = which === undefined ? offered[0] : VIEWS.find(([key]) => key === which);
  const module = await chosen?.[3]();
  const numbers = h("p", { class: "muted numbers" }, figures(memory));
  // A view that edits or watches the memory brings the numbers above it up to date.
  const refresh = (newer) => {
    const text = figures(newer);
    if (numbers.textContent !== text) announce(text);
    numbers.textContent = text;
  };
  const body = await module?.panel(memory, { signal, refresh });
  const content = h(
    "div",
    { class: "stack" },
    h("p", { class: "crumbs" }, h("a", { href: "#/memories" }, "Memories"), " / "),
    h("div", { class: "title-row" }, h("h1", {}, memory.name), numbers),
    h(
      "nav",
      { class: "subnav", "aria-label": "This memory" },
      offered.map(([key, text]) =>
        h("a", { href: `#/m/${addressOf(memory)}/${key}`, "aria-current": key === chosen[0] ? "page" : null }, text),
      ),
    ),
    body,
  );
  return { title: chosen ? `${memory.name}: ${chosen[1]}` : memory.name, content };
}

function figures(memory) {
  const pruned = memory.archived + memory.forgotten;
  return [
    memory.size ? plural(memory.size, "live entry", "live entries") : "empty: no entries",
    pruned ? `${count(pruned)} pruned` : null,
    memory.size ? `${count(memory.deletable)} can go before the cap changes` : null,
    `edit ${count(memory.edit)}`,
  ]
    .filter(Boolean)
    .join(" · ");
}
