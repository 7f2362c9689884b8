// The ledger, newest first, a line each: of the whole store, with filters that are part of the address, or of one memory.

import { cell, field, freshId, h, replace, row, table } from "../element.js";
import { mark } from "../groups.js";
import { count, moment, plural } from "../numbers.js";
import { saveFile } from "../officer/certificate.js";
import { leafText } from "../receipt_text.js";
import { all, get, memoryPath, session } from "../session.js";
import { empty, problem } from "../view_state.js";
import { asCsv, asJsonLines } from "./export.js";
import { headLine } from "./ledger_head.js";

const LINES = 50;
const MOST_PARTS = 5; // receipts of a summary that are listed in its line
const TOGETHER = 3; // lines that say the same become one from so many on
const ERASING = ["certified_zero", "decrement", "refitted", "emptied", "subject_erased", "erased", "dropped"];
const SUMMARIES = ["subject_erased", "erased"];
// What is asked for → its name, and the kinds of leaves that can be it.
const SORTS = {
  erasures: ["Erasures", ERASING],
  persons: ["Erasures of persons", ["subject_erased"]],
  refused: ["Refused, in whole or in part", ["refused", ...SUMMARIES]],
  requests: ["Requests that wait", ["erasure_requested", "erasure_cancelled"]],
  holds: ["Holds", ["held", "released"]],
  entries: ["New entries", ["created", "admitted"]],
  pruning: ["Pruning and rebuilding", ["pruned", "rebuilt", "expired", "restored", "noop"]],
  store: ["Keys and mirrors", ["key_added", "key_revoked", "mirror_added", "mirror_checked", "mirror_removed"]],
};
const FILTERS = ["sort", "memory", "from", "to", "case", "actor"];

export async function view(_, signal, query) {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
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
    filters(asked),
    await lines(pathOf(asked), signal, { named: true, sort: asked.sort, filtered: Object.values(asked).some(Boolean) }),
  );
  return { title: "Ledger", content };
}

export const panel = (memory, { signal }) => lines(memoryPath(memory, "/receipts?"), signal, {});

// Days are those of UTC, as the times in the ledger are; the last one is shown, too.
function pathOf({ sort, memory, from, to, case: reference, actor }) {
  const query = new URLSearchParams();
  for (const kind of SORTS[sort]?.[1] ?? []) query.append("kind", kind);
  if (memory) query.set("memory", memory);
  if (from) query.set("since", `${from}T00:00:00Z`);
  if (to) query.set("until", new Date(Date.parse(`${to}T00:00:00Z`) + 86_400_000).toISOString());
  if (reference) query.set("case", reference);
  if (actor) query.set("actor", actor);
  return `/v1/log?${query}`;
}

function filters(asked) {
  const text = (name) => h("input", { type: "text", value: asked[name], autocomplete: "off", spellcheck: "false" });
  const day = (name) => h("input", { type: "date", value: asked[name] });
  const sort = h(
    "select",
    {},
    h("option", { value: "" }, "Everything"),
    Object.entries(SORTS).map(([value, [label]]) => h("option", { value, selected: value === asked.sort }, label)),
  );
  const everybody = session.isStoreWide;
  const inputs = { sort, memory: text("memory"), from: day("from"), to: day("to"), case: text("case"), actor: text("actor") };
  const shown = (days) =>
    addressOfLines({ ...Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()])), ...days });
  const show = (event) => {
    event.preventDefault();
    location.hash = shown({});
  };
  // A link keeps what was chosen in the form and not shown yet.
  const monthLink = (label, offset) =>
    h(
      "a",
      {
        href: addressOfLines({ ...asked, ...month(offset) }),
        onclick: ({ currentTarget }) => currentTarget.setAttribute("href", shown(month(offset))),
      },
      label,
    );
  return h(
    "form",
    { class: "card stack filters no-print", role: "search", "aria-label": "Filters", onsubmit: show },
    h(
      "div",
      { class: "ways" },
      field("What", sort),
      everybody ? field("Memory", inputs.memory) : null,
      field("From", inputs.from),
      field("To", inputs.to),
      everybody ? field("Case", inputs.case) : null,
      everybody ? field("Done by", inputs.actor) : null,
    ),
    h(
      "div",
      { class: "row" },
      h("button", { type: "submit", class: "primary" }, "Show"),
      monthLink("This month", 0),
      monthLink("Last month", -1),
      Object.values(asked).some(Boolean) ? h("a", { href: "#/ledger" }, "Show everything") : null,
    ),
  );
}

function addressOfLines(asked) {
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
  return `#/ledger${query.size ? `?${query}` : ""}`;
}

// First and last day of this month, or of one before it.
function month(offset) {
  const now = new Date();
  const day = (months, date) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, date)).toISOString().slice(0, 10);
  return { from: day(offset, 1), to: day(offset + 1, 0) };
}

async function lines(path, signal, { named = false, sort = "", filtered = false }) {
  const body = h("tbody");
  const wrong = h("div", { role: "status" });
  const state = h("span", { class: "muted" });
  const fits = (leaf) => sort !== "refused" || leaf.state === "refused" || leaf.state === "partly_refused";
  let cursor = null;
  let shown = 0;
  const summaryOf = new Map();
  const guarded = (work) => async () => {
    replace(wrong);
    try {
      await work();
    } catch (error) {
      if (error.name !== "AbortError") replace(wrong, problem(error));
    }
  };
  const older = h("button", { type: "button", onclick: guarded(load) }, "Older");
  async function load() {
    let found = [];
    do {
      const page = await get(`${path}&limit=${LINES}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, signal);
      cursor = page.next;
      found = found.concat(page.items.filter(fits));
    } while (!found.length && cursor !== null);
    const drawn = (group) => (group.length < TOGETHER ? group.map((leaf) => line(leaf, named)) : grouped(group, named, summaryOf));
    body.append(...together(found, summaryOf).flatMap(drawn));
    shown += found.length;
    state.textContent = `${plural(shown, "line")}${cursor === null ? ", and no more" : ""}`;
    older.hidden = cursor === null;
  }
  const save = (name, type, write) =>
    guarded(async () => {
      const found = (await all(path.replace(/[?&]$/, ""), signal)).filter(fits);
      saveFile(name, new Blob([write(found)], { type }));
    });
  await load();
  if (!body.childElementCount)
    return filtered
      ? empty("No line fits.", "Try a longer time, or fewer filters.")
      : empty("Nothing has happened yet.", "Every edit of a memory leaves a receipt here.");
  const headings = ["Receipt", "When", "What", ...(named ? ["Memory"] : []), "Case", "Done by", "Live after"];
  return h(
    "section",
    { class: "card stack ledger-card", "aria-label": "Receipts" },
    table("receipts", headings, body),
    h(
      "div",
      { class: "row spread no-print" },
      h("div", { class: "row" }, older, state),
      h(
        "div",
        { class: "row" },
        h("span", { class: "muted" }, filtered ? "All that fit:" : "All:"),
        h("button", { type: "button", onclick: save("ledger.csv", "text/csv", asCsv) }, "Save as CSV"),
        h("button", { type: "button", onclick: save("ledger.jsonl", "application/jsonl", asJsonLines) }, "Save as JSON lines"),
      ),
    ),
    wrong,
  );
}

// Neighbours that say the same of the same memory, and neighbours that one summary sums up; `summaryOf` has the summary
// of each leaf that has one above it.
function together(leaves, summaryOf) {
  const same = (one, other) =>
    (summaryOf.has(one.index) && summaryOf.get(one.index) === summaryOf.get(other.index)) ||
    ["kind", "state", "memory", "case", "actor"].every((part) => one[part] === other[part]);
  const groups = [];
  for (const leaf of leaves) {
    for (const part of leaf.parts) summaryOf.set(part, leaf.index);
    if (groups.length && same(groups.at(-1)[0], leaf) && !SUMMARIES.includes(leaf.kind)) groups.at(-1).push(leaf);
    else groups.push([leaf]);
  }
  return groups;
}

// One line for many, which opens to show them.
function grouped(group, named, summaryOf) {
  const [newest, oldest] = [group[0], group.at(-1)];
  const rows = group.map((leaf) => line(leaf, named));
  for (const one of rows) {
    one.hidden = true;
    one.id = freshId("line");
  }
  const toggle = h(
    "button",
    {
      type: "button",
      class: "link",
      "aria-expanded": "false",
      "aria-controls": rows.map((one) => one.id).join(" "),
      onclick() {
        const open = toggle.getAttribute("aria-expanded") !== "true";
        toggle.setAttribute("aria-expanded", String(open));
        for (const one of rows) one.hidden = !open;
      },
    },
    `${count(group.length)} times`,
  );
  // Of parts that came out differently, none may be passed over.
  const summary = summaryOf.get(newest.index);
  const worst = group.find((leaf) => leaf.state === "refused") ?? newest;
  const refused = group.filter((leaf) => leaf.state === "refused").length;
  const mixed = new Set(group.map((leaf) => leaf.memory)).size > 1;
  const sum = { ...worst, applied: group.reduce((total, leaf) => total + (leaf.applied ?? 0), 0) };
  const head = row(
    { class: "group-of-lines" },
    cell({ class: "leaf" }, `${oldest.index}–${newest.index}`),
    cell({ class: "muted" }, moment(oldest.time).slice(0, 10)),
    cell(
      {},
      toggle,
      ": ",
      what(sum),
      refused && refused < group.length ? ` in ${count(refused)} of them` : null,
      summary === undefined ? null : h("span", { class: "muted" }, `, summed up by ${summary}`),
    ),
    named ? cell({}, mixed ? h("span", { class: "muted" }, "several") : memoryOf(newest)) : null,
    cell({}, newest.case ?? ""),
    cell({ class: "muted" }, newest.actor ?? ""),
    cell({ class: "live-after" }, mixed ? "" : live(newest)),
  );
  return [head, ...rows];
}

const live = (leaf) => (leaf.live === null || leaf.live === undefined ? "" : count(leaf.live));
const memoryOf = (leaf) =>
  leaf.name ?? h("span", { class: "muted" }, leaf.memory ? "dropped since" : SUMMARIES.includes(leaf.kind) ? "all" : "");

function what(leaf) {
  const refused = leaf.state === "refused" || leaf.state === "partly_refused";
  const erasing = leaf.state !== "refused" && leaf.state !== "nothing" && ERASING.includes(leaf.kind);
  return h(
    "span",
    { class: `kind ${refused ? "refused" : erasing ? "erased" : ""}` },
    refused ? h("span", { class: "sign", "aria-hidden": "true" }, "!") : erasing ? [mark("erased"), " "] : null,
    leafText(leaf),
  );
}

function line(leaf, named) {
  const href = leaf.kind === "subject_erased" ? `#/erased/${leaf.index}` : `#/ledger/${leaf.index}`;
  const rest = leaf.parts.length - MOST_PARTS;
  const shown = rest > 1 ? leaf.parts.slice(0, MOST_PARTS) : leaf.parts;
  const part = (index) =>
    h("a", { href: `#/ledger/${index}`, "aria-label": `Receipt ${index}, a part of ${leaf.index}` }, String(index));
  const parts = shown.map((index, at) => [at ? ", " : "", part(index)]);
  const more = rest > 1 ? [" and ", h("a", { href }, `${count(rest)} more`)] : null;
  return row(
    { "data-leaf": leaf.index },
    cell({ class: "leaf" }, h("a", { href, "aria-label": `Receipt ${leaf.index}` }, String(leaf.index))),
    cell({ class: "muted when" }, leaf.time ? moment(leaf.time) : ""),
    cell({}, what(leaf), parts.length ? h("span", { class: "muted parts" }, " with receipts ", parts, more) : null),
    named ? cell({}, memoryOf(leaf)) : null,
    cell({}, leaf.case ?? ""),
    cell({ class: "muted" }, leaf.actor ?? ""),
    cell({ class: "live-after" }, live(leaf)),
  );
}
