// A map of one memory: where its entries lie, which of them carry weight, and what is known of one of them.

import { BOUNDARY, Chart, legend, placed } from "./chart.js";
import { announce, bar, cell, field, h, replace, row, table } from "../element.js";
import { entryPanel } from "./entry.js";
import { GROUPS, mark, tag } from "../groups.js";
import { count, moment, percent, plural } from "../numbers.js";
import { addressOf, get, memoryPath } from "../session.js";
import { empty } from "../view_state.js";

const ROWS = 15;

export async function panel(memory, { signal }) {
  const map = await get(memoryPath(memory, "/map"), signal);
  const points = placed(map);
  const details = h(
    "section",
    { class: "card", "aria-label": "Chosen entry" },
    points.length ? empty("Choose an entry.", "Click it on the map, or in the list.") : empty("No entry to choose."),
  );
  const chart = new Chart({ points, boundary: map.boundary, label: describe(map, points), pick: choose, signal });
  const list = new List(points, memory.cap, choose);

  function choose(point) {
    chart.chosen = point.id;
    chart.draw();
    list.mark(point.id);
    replace(details, entryPanel(memory, point, signal));
    announce(`${point.id} chosen`);
  }

  const search = h("input", { type: "search", placeholder: "id or subject", autocomplete: "off", spellcheck: "false" });
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    const found =
      wanted === ""
        ? null
        : points.filter((point) => `${point.id}\n${point.subject ?? ""}`.toLowerCase().includes(wanted));
    chart.matching = found && new Set(found.map((point) => point.id));
    chart.draw();
    list.show(found ?? points);
    announce(found === null ? "" : `${found.length} of ${points.length} entries match`);
  });

  return h(
    "div",
    { class: "map-layout" },
    h(
      "section",
      { class: "stack map-side", "aria-label": "Map" },
      h(
        "div",
        { class: "row spread" },
        field("Search", search),
        legend(map, (group, shown) => {
          chart.hidden[shown ? "delete" : "add"](group);
          chart.draw();
        }),
      ),
      points.length ? chart.element : empty("This memory is empty: no entries.", "What is admitted appears here."),
      points.length ? h("p", { class: "muted" }, projection(map)) : null,
    ),
    h("div", { class: "stack map-rest" }, details, points.length ? list.element : null),
    placeless(map, memory),
  );
}

function describe(map, points) {
  const groups = Object.keys(GROUPS).map((group) => [group, points.filter((point) => point.group === group).length]);
  return `Map of ${points.length} entries: ${groups
    .filter(([, size]) => size)
    .map(([group, size]) => `${size} ${group}`)
    .join(", ")}. The list has the same entries.`;
}

function projection(map) {
  if (map.projection.kind === "identity") {
    return `The two coordinates of each key as they are. ${map.boundary ? BOUNDARY : ""}`;
  }
  const kept = map.projection.explained.reduce((sum, part) => sum + part, 0);
  return `${count(map.dimension)} coordinates drawn in two, along the directions in which keys differ most: ${percent(kept)} of how they differ is seen here.`;
}

// What has no place because its content is gone: said and counted, not drawn somewhere.
function placeless(map, memory) {
  if (!map.erased_total && !map.forgotten.length) return null;
  const receipts = new Map();
  for (const gone of map.erased) receipts.set(gone.index, [...(receipts.get(gone.index) ?? []), gone]);
  return h(
    "section",
    { class: "placeless" },
    h("h2", {}, "Not on the map"),
    map.forgotten.length
      ? h(
          "p",
          {},
          mark("forgotten"),
          ` ${plural(map.forgotten.length, "entry was", "entries were")} forgotten: a few numbers are kept of each, and no key. `,
          h("a", { href: `#/m/${addressOf(memory)}/certificates` }, "Their certificates"),
        )
      : null,
    map.erased_total
      ? [
          h(
            "p",
            {},
            `${plural(map.erased_total, "entry was", "entries were")} erased. Nothing is left to draw; a receipt knows each by a commitment that no longer opens.`,
          ),
          h(
            "ul",
            { class: "erasures" },
            [...receipts].map(([index, gone]) => erasure(index, gone)),
          ),
        ]
      : null,
  );
}

function erasure(index, gone) {
  const marks = gone.slice(0, 24).map(() => mark("erased"));
  return h(
    "li",
    {},
    h("a", { href: `#/ledger/${index}` }, `Receipt ${index}`),
    h("span", { class: "marks" }, marks),
    h("span", { class: "muted" }, `${count(gone.length)}, ${moment(gone[0].time)}`),
  );
}

// The same entries as the map has, heaviest first, some at a time.
class List {
  constructor(points, cap, choose) {
    Object.assign(this, { cap, choose, at: 0, chosen: null });
    this.body = h("tbody");
    this.state = h("span", { class: "muted" });
    this.back = h("button", { type: "button", onclick: () => this.turn(-ROWS) }, "Previous");
    this.next = h("button", { type: "button", onclick: () => this.turn(ROWS) }, "Next");
    this.element = h(
      "section",
      { class: "card stack", "aria-label": "Entries" },
      table("entries", ["Entry", "Subject", "Group", "Weight"], this.body),
      h("div", { class: "row spread" }, this.state, h("div", { class: "row" }, this.back, this.next)),
    );
    this.show(points);
  }

  show(points) {
    this.points = [...points].sort(
      (one, other) =>
        (other.coefficient ?? 0) - (one.coefficient ?? 0) || one.id.localeCompare(other.id, "en", { numeric: true }),
    );
    this.turn(-this.at);
  }

  mark(id) {
    this.chosen = id;
    this.turn(0);
  }

  turn(rows) {
    this.at += rows;
    const shown = this.points.slice(this.at, this.at + ROWS);
    replace(
      this.body,
      shown.map((point) => this.line(point)),
    );
    this.state.textContent = this.points.length
      ? `${count(this.at + 1)}–${count(this.at + shown.length)} of ${count(this.points.length)}`
      : "No entry matches.";
    this.back.disabled = this.at === 0;
    this.next.disabled = this.at + ROWS >= this.points.length;
  }

  line(point) {
    const weight = point.coefficient ?? 0;
    const name = h(
      "button",
      {
        type: "button",
        class: "link",
        "aria-pressed": String(point.id === this.chosen),
        title: point.id,
        onclick: () => this.choose(point),
      },
      point.id,
    );
    return row(
      { class: point.id === this.chosen ? "chosen" : null },
      cell({}, name),
      cell({}, point.subject ?? ""),
      cell({}, tag(point.group)),
      cell({ class: "weight" }, bar(weight / this.cap, point.group), h("span", {}, weight ? percent(weight) : "0")),
    );
  }
}
