// Asking a memory, and seeing which entries carry the answer: shares as bars, and where they lie.

import { Chart, placed } from "./chart.js";
import { announce, bar, fact, field, freshId, h, replace } from "./element.js";
import { readable } from "./entry.js";
import { mark } from "./groups.js";
import { percent, plural, quantity } from "./numbers.js";
import { get, memoryPath, post } from "./session.js";
import { takeArguments } from "./view_arguments.js";
import { empty, show } from "./view_state.js";

const HITS = 12;

export async function panel(memory, { signal }) {
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
  const wrong = h("p", { class: "wrong", role: "alert" });

  function ask(question) {
    wrong.textContent = "";
    return show(answer, "the answer", async () => {
      const found = await post(memoryPath(memory, "/explain"), { ...question, k: HITS });
      chart.query = { x: found.x, y: found.y };
      chart.hits = new Map(found.hits.map((hit) => [hit.id, hit.share]));
      chart.draw();
      answer.scrollIntoView({ block: "nearest" });
      announce(`Answered; ${plural(found.hits.length, "entry carries", "entries carry")} most of it`);
      return answered(found);
    });
  }

  function at(place) {
    entry.value = numbers.value = "";
    return ask({ at: place });
  }

  function submit(event) {
    event.preventDefault();
    const like = entry.value.trim();
    const typed = numbers.value.trim();
    if (typed === "" && like === "") return complain("Choose an entry, or type numbers.", entry);
    if (typed === "") return ask({ like });
    const query = typed.split(/[\s,;]+/).map(Number);
    if (query.some((number) => !Number.isFinite(number))) return complain("Not everything here is a number.", numbers);
    if (query.length !== memory.dimension)
      return complain(`A query has ${plural(memory.dimension, "number")}; these are ${query.length}.`, numbers);
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
        h("div", { class: "ways" }, field("With the key of an entry", entry), field("Or with numbers", numbers)),
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Ask"), wrong),
      ),
      chart.element,
      h(
        "p",
        { class: "muted" },
        map.projection.kind === "identity"
          ? "Or click a place on the map. The cross is the query; circles are larger the more an entry carries."
          : "Or click a place: it stands for the key there that is average in every other direction. The cross is the query; circles are larger the more an entry carries.",
      ),
    ),
    answer,
  );
}

function answered(found) {
  const heading = freshId("shares");
  const active = plural(found.active, "entry has", "entries have");
  return h(
    "div",
    { class: "stack" },
    h("h2", {}, "Answer"),
    h(
      "dl",
      { class: "facts readout" },
      found.readout.map((number, at) =>
        fact(found.readout.length === 1 ? "Value" : `Value ${at + 1}`, quantity(number)),
      ),
    ),
    h(
      "p",
      { class: "muted" },
      `Gate score ${quantity(found.score)}: higher where the memory knows more. ${active} weight in all.`,
    ),
    h("h2", { id: heading }, "Who carries it"),
    h("ol", { class: "shares", "aria-labelledby": heading }, found.hits.map(share)),
    h(
      "p",
      { class: "muted" },
      "Bars compare with the largest share.",
      found.rest > 0 ? ` The others carry ${percent(found.rest)} together.` : null,
    ),
  );
}

function share(hit, at, hits) {
  return h(
    "li",
    {},
    h(
      "div",
      { class: "row spread" },
      h(
        "span",
        { class: "who" },
        hit.group ? mark(hit.group) : null,
        h("b", {}, hit.id),
        hit.subject ? h("span", { class: "muted" }, ` ${hit.subject}`) : null,
      ),
      h("span", { class: "number" }, percent(hit.share)),
    ),
    bar(hit.share / hits[0].share, hit.group ?? ""),
    hit.payload === null || hit.payload === undefined
      ? null
      : h("details", {}, h("summary", {}, excerpt(hit.payload)), h("div", { class: "payload" }, readable(hit.payload))),
  );
}

const part = ([name, value]) =>
  typeof value === "string" ? value : typeof value === "number" ? `${name} ${value}` : null;

function excerpt(payload) {
  const text = typeof payload === "string" ? payload : Object.entries(payload).map(part).filter(Boolean).join(" · ");
  return text.length > 90 ? `${text.slice(0, 88)}…` : text || "What it holds";
}
