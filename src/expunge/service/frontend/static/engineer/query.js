// Asking a memory, and seeing where the query lies, which entries carry the answer, and which are nearest.

import { BOUNDARY, Chart, placed } from "./chart.js";
import { announce, bar, fact, field, freshId, h, replace } from "../element.js";
import { readable } from "./entry.js";
import { mark } from "../groups.js";
import { percent, plural, quantity } from "../numbers.js";
import { get, memoryPath, post } from "../session.js";
import { takeArguments } from "../view_arguments.js";
import { empty, show } from "../view_state.js";

const HITS = 12;
const NEIGHBOURS = 6;

export async function panel(memory, { signal }) {
  if (!memory.size)
    return empty("This memory is empty: no entries.", "An answer is a mean of values, and there is none to take it of.");
  const map = await get(memoryPath(memory, "/map"), signal);
  const points = placed(map);
  const chart = new Chart({
    points,
    boundary: map.boundary,
    label: "Map to ask at: click a place. The form has other ways to ask.",
    ask: at,
    signal,
  });
  const answer = h(
    "section",
    { class: "card", "aria-label": "Answer" },
    empty("Ask something.", "Every answer is a weighted mean of the values near the query. The shares say whose."),
  );
  const entry = h("input", { type: "text", list: "asking-ids", autocomplete: "off", spellcheck: "false" });
  const numbers = h("textarea", {
    rows: 2,
    spellcheck: "false",
    placeholder: `${plural(memory.dimension, "number")}, with commas or spaces between`,
  });
  // Keys that were made from texts are asked with a text, and those of named columns by these.
  const text = memory.embedder === null ? null : h("textarea", { rows: 2, placeholder: "A question, or words of a note" });
  const columns = memory.preprocessing?.keys ?? [];
  const cells = columns.map(() => h("input", { type: "text", inputmode: "decimal", autocomplete: "off" }));
  const wrong = h("p", { class: "wrong", role: "alert" });

  function ask(question) {
    wrong.textContent = "";
    return show(answer, "the answer", async () => {
      const found = await post(memoryPath(memory, "/explain"), { ...question, k: HITS });
      chart.query = { x: found.x, y: found.y };
      chart.hits = new Map(found.nearby ? found.hits.map((hit) => [hit.id, hit.share]) : []);
      chart.draw();
      answer.scrollIntoView({ block: "nearest" });
      announce(
        found.nearby
          ? `Answered; ${plural(found.hits.length, "entry carries", "entries carry")} most of it`
          : "Answered; no entry is nearby",
      );
      return answered(found, memory.preprocessing?.values);
    });
  }

  function at(place) {
    for (const control of [entry, numbers, ...cells, ...(text ? [text] : [])]) control.value = "";
    return ask({ at: place });
  }

  function submit(event) {
    event.preventDefault();
    if (text?.value.trim()) return ask({ text: text.value.trim() });
    const like = entry.value.trim();
    const typed = numbers.value.trim();
    if (cells.some((cell) => cell.value.trim() !== "")) return askMeasured();
    if (typed === "" && like === "") return complain(text ? "Type a text, or choose an entry." : "Choose an entry, or type numbers.", text ?? entry);
    if (typed === "") return ask({ like });
    const query = typed.split(/[\s,;]+/).map(Number);
    if (query.some((number) => !Number.isFinite(number))) return complain("Not everything here is a number.", numbers);
    if (query.length !== memory.dimension)
      return complain(`A query has ${plural(memory.dimension, "number")}; these are ${query.length}.`, numbers);
    return ask({ query });
  }

  // A decimal comma is as good as a point, and an empty field is a missing measurement.
  function askMeasured() {
    const query = Object.create(null);
    for (const [at, { name, fill }] of columns.entries()) {
      const typed = cells[at].value.trim().replace(",", ".");
      const number = typed === "" ? null : Number(typed);
      if (number === null && fill === null) return complain(`${name} is missing, and the memory has no fill for it.`, cells[at]);
      if (number !== null && !Number.isFinite(number)) return complain(`${name}: this is not a number.`, cells[at]);
      query[name] = number;
    }
    return ask({ query });
  }

  function complain(text, control) {
    wrong.textContent = text;
    control.focus();
  }

  const { like } = takeArguments();
  if (like !== undefined) {
    entry.value = like;
    ask({ like });
  }
  return h(
    "div",
    { class: "map-layout" },
    h(
      "section",
      { class: "stack map-side", "aria-label": "Question" },
      h(
        "form",
        { class: "card stack", onsubmit: submit },
        h(
          "datalist",
          { id: "asking-ids" },
          points
            .filter((point) => point.group !== "archived")
            .slice(0, 1000)
            .map((point) => h("option", { value: point.id })),
        ),
        text ? field("With a text", text, `Read by the embedder that made the keys: ${memory.embedder.name}.`) : null,
        columns.length ? measurements(columns, cells) : null,
        h(
          "div",
          { class: "ways" },
          field(text || columns.length ? "Or with the key of an entry" : "With the key of an entry", entry),
          columns.length || text ? null : field("Or with numbers", numbers),
        ),
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Ask"), wrong),
      ),
      chart.element,
      h(
        "p",
        { class: "muted" },
        map.projection.kind === "identity"
          ? "Or click a place on the map. The cross is the query; circles are larger the more an entry carries."
          : "Or click a place: it stands for the key there that is average in every other direction. The cross is the query; circles are larger the more an entry carries.",
        map.boundary ? ` ${BOUNDARY}` : null,
      ),
    ),
    answer,
  );
}

// One named field per column.
function measurements(columns, cells) {
  const named = ({ name, unit }) => (unit ? `${name} (${unit})` : name);
  const hint = ({ fill }) => (fill === null ? null : `Empty: ${quantity(fill)}`);
  return h(
    "div",
    { class: "ways", role: "group", "aria-label": "With measurements" },
    columns.map((column, at) => field(named(column), cells[at], hint(column))),
  );
}

function answered(found, columns) {
  const carriers = freshId("shares");
  const neighbours = freshId("nearest");
  const active = plural(found.active, "entry has", "entries have");
  return h(
    "div",
    { class: "stack" },
    h("h2", {}, "Answer"),
    h(
      "dl",
      { class: "facts readout" },
      found.readout.map((number, at) =>
        fact(
          columns?.[at].name ?? (found.readout.length === 1 ? "Value" : `Value ${at + 1}`),
          quantity(number),
          columns?.[at].unit ? ` ${columns[at].unit}` : null,
        ),
      ),
    ),
    h(
      "p",
      { class: "muted" },
      `The query is ${found.inside ? "inside" : "outside"}, ${signed(found.distance)} from the boundary.`,
      found.filled.length ? ` Not given, so the memory's fill was used: ${found.filled.join(", ")}.` : null,
    ),
    found.nearby
      ? [
          h("h2", { id: carriers }, "Who carries it"),
          h("ol", { class: "shares", "aria-labelledby": carriers }, found.hits.map(share)),
          h(
            "p",
            { class: "muted" },
            "Bars compare with the largest share.",
            found.rest > 0 ? ` The others carry ${percent(found.rest)} together.` : null,
            ` ${active} weight in all; entries without weight carry nothing, however near they are.`,
          ),
        ]
      : h(
          "p",
          { class: "note" },
          h("b", {}, "No entry nearby. "),
          "Every similarity is below 0.001. The answer is a mean of values that are all far away, and shares of it say little.",
        ),
    h("h2", { id: neighbours }, "Nearest entries"),
    h("ol", { class: "shares nearest", "aria-labelledby": neighbours }, found.nearest.slice(0, NEIGHBOURS).map(neighbour)),
    h("p", { class: "muted" }, "By distance of the keys, whatever an entry weighs; archived ones too. No certificate speaks of this list."),
  );
}

const signed = (number) => (number > 0 ? `+${quantity(number)}` : quantity(number));

function neighbour(found) {
  return h(
    "li",
    {},
    h(
      "div",
      { class: "row spread" },
      who(found, found.archived ? "archived" : null),
      h("span", { class: "number" }, `distance ${quantity(found.distance)}`),
    ),
    held(found.payload),
  );
}

function who(entry, group) {
  return h(
    "span",
    { class: "who" },
    group ? mark(group) : null,
    h("b", {}, entry.id),
    entry.subject ? h("span", { class: "muted" }, ` ${entry.subject}`) : null,
  );
}

function held(payload) {
  if (payload === null || payload === undefined) return null;
  return h("details", {}, h("summary", {}, excerpt(payload)), h("div", { class: "payload" }, readable(payload)));
}

function share(hit, at, hits) {
  return h(
    "li",
    {},
    h("div", { class: "row spread" }, who(hit, hit.group), h("span", { class: "number" }, percent(hit.share))),
    bar(hit.share / hits[0].share, hit.group ?? ""),
    held(hit.payload),
  );
}

const part = ([name, value]) =>
  typeof value === "string" ? value : typeof value === "number" ? `${name} ${value}` : null;

function excerpt(payload) {
  const text = typeof payload === "string" ? payload : Object.entries(payload).map(part).filter(Boolean).join(" · ");
  return text.length > 90 ? `${text.slice(0, 88)}…` : text || "What it holds";
}
