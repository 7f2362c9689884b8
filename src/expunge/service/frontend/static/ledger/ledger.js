// The ledger, newest first, a line each: of the whole store, or of one memory.

import { cell, h, replace, row, table } from "../element.js";
import { mark } from "../groups.js";
import { headLine } from "./ledger_head.js";
import { count, moment } from "../numbers.js";
import { leafText } from "../receipt_text.js";
import { get, memoryPath } from "../session.js";
import { empty, problem } from "../view_state.js";

const LINES = 50;
const ERASING = ["certified_zero", "decrement", "refitted", "emptied", "subject_erased", "erased", "dropped"];

export async function view(_, signal) {
  const content = h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "title-row" },
      h("h1", {}, "Ledger"),
      h("p", { class: "muted" }, "Every edit of this store, applied or refused, signed and in one order."),
    ),
    headLine(),
    await lines("/v1/log", signal, true),
  );
  return { title: "Ledger", content };
}

export const panel = (memory, { signal }) => lines(memoryPath(memory, "/receipts"), signal, false);

async function lines(path, signal, named) {
  const body = h("tbody");
  const wrong = h("div", {});
  let cursor = null;
  const older = h(
    "button",
    { type: "button", onclick: () => load().catch((error) => replace(wrong, problem(error))) },
    "Older",
  );
  async function load() {
    const page = await get(`${path}?limit=${LINES}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, signal);
    cursor = page.next;
    body.append(...page.items.map((leaf) => line(leaf, named)));
    older.hidden = cursor === null;
  }
  await load();
  if (!body.childElementCount)
    return empty("Nothing has happened yet.", "Every edit of a memory leaves a receipt here.");
  return h(
    "section",
    { class: "card stack ledger-card", "aria-label": "Receipts" },
    table("receipts", ["Leaf", "What", ...(named ? ["Memory"] : []), "Live after", "When"], body),
    h("div", {}, older),
    wrong,
  );
}

function line(leaf, named) {
  const refused = leaf.state === "refused" || leaf.state === "partly_refused";
  const erasing = leaf.state !== "refused" && leaf.state !== "nothing" && ERASING.includes(leaf.kind);
  return row(
    {},
    cell(
      { class: "leaf" },
      h("a", { href: `#/ledger/${leaf.index}`, "aria-label": `Receipt ${leaf.index}` }, String(leaf.index)),
    ),
    cell(
      {},
      h(
        "span",
        { class: `kind ${refused ? "refused" : erasing ? "erased" : ""}` },
        refused ? h("span", { class: "sign", "aria-hidden": "true" }, "!") : erasing ? [mark("erased"), " "] : null,
        leafText(leaf),
      ),
    ),
    named ? cell({}, leaf.name ?? (leaf.memory ? h("span", { class: "muted" }, "dropped since") : "")) : null,
    cell({ class: "live-after" }, leaf.live === null || leaf.live === undefined ? "" : count(leaf.live)),
    cell({ class: "muted" }, leaf.time ? moment(leaf.time) : ""),
  );
}
