// Certificates of pruned entries: how much of each warranty is left, kept up to date while one looks.

import { bar, h, replace } from "../element.js";
import { GROUPS, mark } from "../groups.js";
import { count, percent, plural, quantity } from "../numbers.js";
import { all, get, memoryPath } from "../session.js";
import { empty } from "../view_state.js";

const EVERY = 2000; // milliseconds between looks
const SHOWN = 40;
const ORDER = ["valid", "expired", "ended"];

export async function panel(memory, { signal, refresh }) {
  const view = new Certificates(memory, signal, refresh);
  await view.load();
  view.watch();
  return view.element;
}

class Certificates {
  constructor(memory, signal, refresh) {
    Object.assign(this, { memory, signal, refresh, rows: [], shown: SHOWN });
    this.first = new Map(); // id → fraction when the view opened, to show what was lost since
    this.items = new Map(); // id → its element, so that a bar moves instead of being replaced
    this.summary = h("p", { class: "lead" });
    this.live = h("p", { class: "live muted" });
    this.list = h("ul", { class: "warranties" });
    this.more = h("button", { type: "button", onclick: () => this.reveal() }, "Show more");
    this.element = h(
      "div",
      { class: "stack" },
      h(
        "section",
        { class: "card stack", "aria-label": "Certificates" },
        this.summary,
        h("p", { class: "muted" }, ABOUT),
        this.live,
        this.list,
        h("div", {}, this.more),
      ),
    );
  }

  async load() {
    this.rows = await all(memoryPath(this.memory, "/warranties"), this.signal);
    // What ends next comes first; what has ended, last.
    this.rows.sort(
      (one, other) => ORDER.indexOf(one.status) - ORDER.indexOf(other.status) || one.fraction - other.fraction,
    );
    for (const row of this.rows) if (!this.first.has(row.id)) this.first.set(row.id, row.fraction);
    this.draw();
  }

  draw() {
    const valid = this.rows.filter((row) => row.status === "valid").length;
    this.summary.textContent = this.rows.length
      ? `${count(valid)} of ${plural(this.rows.length, "certificate")} ${valid === 1 ? "is" : "are"} valid; ${count(this.rows.length - valid)} ${this.rows.length - valid === 1 ? "has" : "have"} expired or ended.`
      : "";
    if (!this.rows.length)
      return replace(
        this.list,
        empty(
          "No entry has been pruned.",
          "Pruning drops entries that are proved to weigh nothing, each under a warranty: `expunge prune`. It keeps the content aside unless told to forget it; certificates of forgotten entries end with the first erasure of an entry that was live at the pruning.",
        ),
      );
    this.live.textContent = `Live: as of edit ${count(this.memory.edit)}.`;
    const shown = this.rows.slice(0, this.shown);
    replace(
      this.list,
      shown.map((row) => this.item(row)),
    );
    this.more.hidden = this.rows.length <= this.shown;
    this.more.textContent = `Show ${count(Math.min(SHOWN, this.rows.length - this.shown))} more`;
    return undefined;
  }

  reveal() {
    this.shown += SHOWN;
    this.draw();
  }

  item(row) {
    const known = this.items.get(row.id) ?? make(row);
    this.items.set(row.id, known);
    const fraction = row.status === "valid" ? row.fraction : 0;
    known.element.className = row.status;
    known.filled.style.width = `${Math.max(0, Math.min(1, fraction)) * 100}%`;
    known.lost.style.width = `${Math.max(0, Math.min(1, this.first.get(row.id))) * 100}%`;
    known.left.textContent = row.status === "valid" ? `${percent(fraction)} left` : row.status;
    known.state.textContent =
      row.status === "valid"
        ? `slack ${quantity(row.remaining)} of ${quantity(row.slack)}`
        : row.status === "expired"
          ? "not proved with the present entries"
          : "an entry that was live at the pruning was erased";
    return known.element;
  }

  // Looks again every few seconds while the page is visible; only a new state is loaded.
  async watch() {
    while (!this.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, EVERY));
      if (this.signal.aborted || document.hidden) continue;
      try {
        const memory = await get(memoryPath(this.memory), this.signal);
        if (memory.digest === this.memory.digest) continue;
        this.memory = memory;
        this.refresh(memory);
        await this.load();
      } catch (error) {
        if (error.name !== "AbortError") this.live.textContent = `Not up to date: ${error.message}`;
      }
    }
  }
}

const ABOUT =
  "A pruned entry weighed nothing when it was dropped. Later edits use up its warranty; while something is left, it provably still weighs nothing. The bound is careful: it may end early, never late. The certificates of forgotten entries end with the first erasure of an entry that was live when they were pruned; archived entries are checked from their keys instead.";

function make(row) {
  const group = row.mode === "archive" ? "archived" : "forgotten";
  const track = bar(row.fraction, group);
  const lost = h("span", { class: "lost" });
  track.prepend(lost);
  const left = h("span", { class: "number" });
  const state = h("span", { class: "muted" });
  const element = h(
    "li",
    { "data-id": row.id },
    h(
      "div",
      { class: "row spread" },
      h(
        "span",
        { class: "who" },
        mark(group),
        h("b", {}, row.id),
        row.subject ? h("span", { class: "muted" }, ` ${row.subject}`) : null,
        h("span", { class: "hidden" }, `, ${GROUPS[group].label}`),
      ),
      left,
    ),
    track,
    state,
  );
  return { element, filled: track.querySelector(".filled"), lost, left, state };
}
