// Every memory of the store at a glance: how large, how its weight is spread, how much can still go.

import { cell, field, h, replace, row, table, withCode } from "../element.js";
import { GROUPS, mark } from "../groups.js";
import { headLine } from "../ledger/ledger_head.js";
import { count, plural } from "../numbers.js";
import { addressOf, all, session } from "../session.js";
import { empty } from "../view_state.js";

export async function view(_, signal) {
  const damaged = [];
  const memories = await all("/v1/memories", signal, (part) => damaged.push(...part.damaged));
  const { about } = session;
  const content = h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "title-row" },
      h("h1", {}, "Memories"),
      h(
        "p",
        { class: "muted" },
        `Store ${about.origin} · expunge ${about.version} · this token may ${about.token.scopes.join(", ")}`,
      ),
    ),
    headLine(),
    damaged.length ? broken(damaged) : null,
    memories.length
      ? new Overview(memories).element
      : damaged.length
        ? null
        : empty("No memory yet.", "Make one with `expunge create`, or start with the demo: `expunge serve --demo`."),
  );
  return { title: "Memories", content };
}

function broken(names) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, `${plural(names.length, "memory is", "memories are")} damaged`),
    h("p", {}, `${names.join(", ")}: what is stored is not what was written.`),
    h("p", { class: "muted" }, withCode("`expunge show` says what is wrong; a backup from before can be restored.")),
  );
}

// What the columns show, and what they are sorted by.
const COLUMNS = [
  ["Memory", null, "name"],
  ["Live", (memory) => memory.size],
  ["Groups", (memory) => memory.partition.margin + memory.partition.bound],
  ["Can go before the cap changes", (memory) => memory.deletable],
  ["Certificates", (memory) => memory.archived + memory.forgotten],
  ["Edits", (memory) => memory.edit],
  ["Coordinates", (memory) => memory.dimension],
];
const ROWS = 50;
const KEY = () =>
  h(
    "ul",
    { class: "legend small", "aria-label": "Groups" },
    Object.entries(GROUPS)
      .filter(([group]) => group !== "erased")
      .map(([group, { about, label }]) => h("li", { title: about }, mark(group), label)),
  );

// All of them in one table, with a search and columns to sort by; the first is the last that was sorted by.
class Overview {
  constructor(memories) {
    Object.assign(this, { memories, column: 0, down: false, shown: ROWS });
    this.body = h("tbody");
    this.search = h("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => {
      this.shown = ROWS;
      this.draw();
    });
    this.heads = COLUMNS.map(([label], at) => h("button", { type: "button", class: "sorter", onclick: () => this.sort(at) }, label));
    this.more = h("button", { type: "button", onclick: () => this.reveal() }, "Show more");
    this.state = h("span", { class: "muted", role: "status" });
    this.table = table("memory-list", this.heads, this.body);
    this.element = h(
      "section",
      { class: "card stack", "aria-label": "Memories" },
      h("div", { class: "row spread" }, field("Find a memory", this.search), KEY(), this.state),
      this.table,
      h("div", {}, this.more),
    );
    this.draw();
  }

  sort(at) {
    // Names begin at A, numbers at the largest.
    this.down = at === this.column ? !this.down : COLUMNS[at][2] === undefined;
    this.column = at;
    this.draw();
  }

  reveal() {
    this.shown += ROWS;
    this.draw();
  }

  draw() {
    const value = COLUMNS[this.column][1];
    const turn = this.down ? -1 : 1;
    const byName = (one, other) => one.name.localeCompare(other.name, "en", { numeric: true });
    const byValue = (one, other) => (COLUMNS[this.column][2] ? byName(one, other) : value(one) - value(other));
    const words = this.search.value.trim().toLowerCase();
    const found = this.memories.filter(({ name }) => name.toLowerCase().includes(words));
    found.sort((one, other) => turn * byValue(one, other) || byName(one, other));
    replace(this.body, found.slice(0, this.shown).map(line));
    for (const [at, head] of this.heads.entries())
      head.parentElement.setAttribute("aria-sort", at !== this.column ? "none" : this.down ? "descending" : "ascending");
    this.more.hidden = found.length <= this.shown;
    this.state.textContent = found.length
      ? `${count(Math.min(this.shown, found.length))} of ${plural(found.length, "memory", "memories")}${words ? " found" : ""}`
      : "No memory is called so.";
  }
}

function line(memory) {
  const parts = { ...memory.partition, archived: memory.archived, forgotten: memory.forgotten };
  const present = Object.entries(parts).filter(([, size]) => size);
  const total = present.reduce((sum, [, size]) => sum + size, 0);
  const pruned = memory.archived + memory.forgotten;
  return row(
    {},
    cell({ class: "memory-name" }, h("a", { href: `#/m/${addressOf(memory)}` }, memory.name)),
    cell({}, memory.size ? count(memory.size) : "empty"),
    cell(
      { class: "groups" },
      h("div", { class: "split", "aria-hidden": "true" }, present.map(([group, size]) => slice(group, size / total))),
      h("ul", { class: "legend small" }, present.map(([group, size]) => numberOf(group, size))),
    ),
    cell({ "data-label": "can go" }, memory.size ? count(memory.deletable) : ""),
    cell({ "data-label": "certificates" }, pruned ? `${count(pruned - memory.expired)} valid${memory.expired ? `, ${count(memory.expired)} ended` : ""}` : ""),
    cell({ "data-label": "edits" }, count(memory.edit)),
    cell({ "data-label": "coordinates" }, count(memory.dimension)),
  );
}

const numberOf = (group, size) =>
  h("li", { title: GROUPS[group].label }, mark(group), count(size), h("span", { class: "hidden" }, ` ${GROUPS[group].label}`));

function slice(group, fraction) {
  const part = h("span", { class: group });
  part.style.flexGrow = fraction;
  return part;
}
