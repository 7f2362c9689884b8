// What the store has of one person, memory by memory, and what erasing it would do; and what an erasure passes over.

import { cell, fact, h, row } from "../element.js";
import { count, percentAtMost, plural, quantity } from "../numbers.js";
import { longTable, someOf } from "./long_table.js";
import { spelled } from "./typed_name.js";

const HAPPENS = {
  certified_zero: "Erased. No answer changes.",
  decrement: "Erased. The rest is recomputed and checked.",
  refitted: "Erased. Few are left: the rest is solved afresh.",
  emptied: "Erased. The memory is then empty.",
  noop: "Nothing to do.",
};
const LISTED = 8;

export const goes = (seen) => Object.values(seen.memories).reduce((sum, one) => sum + one.applied.length, 0);
export const memoriesThatLose = (seen) => Object.values(seen.memories).filter((one) => one.applied.length).length;

// `found`: the number of the person's entries by memory, where the search told it.
export function whatIsThere(seen, found) {
  // What stays comes first: it is what one has to know.
  const stays = (name) => seen.memories[name].outcome === "refused";
  const names = Object.keys(seen.memories).sort((one, other) => stays(other) - stays(one) || one.localeCompare(other, "en", { numeric: true }));
  const lines = names.map((name) => {
    const one = seen.memories[name];
    const own = found?.[name] ?? one.applied.length - one.derived.length;
    return row(
      { class: one.outcome === "refused" ? "stays" : null },
      cell({}, h("b", {}, name)),
      cell({ "data-label": "entries" }, count(own)),
      cell({ "data-label": "made from them" }, one.derived.length ? count(one.derived.length) : "none"),
      cell({ "data-label": "holds" }, !seen.holds ? "not shown" : seen.holds[name].length || "none"),
      cell({ "data-label": "copies" }, !seen.mirrors ? "not shown" : seen.mirrors[name].join(", ") || "none"),
      cell({}, one.outcome === "refused" ? `Stays: ${one.reason}.` : HAPPENS[one.outcome]),
    );
  });
  const headings = ["Memory", "Entries", "Made from them", "Holds", "Copies elsewhere", "What happens"];
  return h("div", { class: "stack" }, longTable("by-memory", headings, lines), derived(seen), technical(seen));
}

// Entries of other people, too, that were made from the person's.
function derived(seen) {
  const made = Object.values(seen.memories).flatMap((one) => one.derived);
  if (!made.length) return null;
  const shown = made.slice(0, LISTED).map(({ memory, id, sources }) =>
    h("li", {}, `${id} of ${memory}, made from ${sources.map(([source, name]) => `${name} of ${source}`).join(", ")}`),
  );
  const rest = made.length > LISTED ? h("li", { class: "muted" }, `and ${count(made.length - LISTED)} more`) : null;
  return h("div", {}, h("p", {}, h("b", {}, "Made from them, and to go, too")), h("ul", { class: "ids" }, shown, rest));
}

function technical(seen) {
  const parts = Object.entries(seen.memories).filter(([, one]) => one.applied.length);
  if (!parts.length) return null;
  const facts = ([name, one]) =>
    fact(
      name,
      h("p", {}, `${plural(one.size, "live entry", "live entries")} left, ${count(one.changed_coefficients)} other weights move; answers move by ${moves(one)}.`),
      one.cap === one.cap_before ? null : h("p", {}, `Cap ${quantity(one.cap_before)} → ${quantity(one.cap)}.`),
      one.ended.length || one.expired.length
        ? h("p", {}, `${plural(one.ended.length, "certificate")} end for good, ${count(one.expired.length)} expire.`)
        : null,
      h("p", { class: "muted" }, "To go: ", one.applied.slice(0, LISTED).join(", "), one.applied.length > LISTED ? " …" : "."),
    );
  return h("details", {}, h("summary", {}, "Technical details"), h("dl", { class: "facts wide" }, parts.map(facts)));
}

function moves(one) {
  if (!one.size) return "nothing: there is nothing left to ask";
  if (one.readout_bound === 0) return "nothing, at any query";
  if (one.readout_bound === null) return "an amount that is not bounded everywhere";
  return `at most ${percentAtMost(one.readout_bound)} of the value range, inside the boundary`;
}

// Subjects that look alike, each with a button that looks at it, and entries without any subject.
export function passedOver({ look_alikes: alike, not_searched: unsearched }, choose, label = "Not erased") {
  if (!alike?.length && !unsearched?.length) return null;
  const offer = ({ subject, entries, memories }) =>
    h(
      "li",
      { class: "row" },
      h("button", { type: "button", onclick: () => choose(subject) }, h("code", { class: "exact" }, spelled(subject))),
      h("span", {}, `${plural(entries, "entry", "entries")} in ${someOf(memories)}`),
    );
  const without = ({ memory, unnamed, entries }) => `${memory} (${unnamed} of ${plural(entries, "entry", "entries")} without a name)`;
  return h(
    "section",
    { class: "card stack", "aria-label": label },
    alike?.length ? h("p", {}, "These look alike and are not touched. The same person? Look at each by its name:") : null,
    alike?.length ? h("ul", { class: "per-memory" }, alike.map(offer)) : null,
    unsearched?.length ? h("p", { class: "muted" }, `Not searched, because entries there belong to nobody by name: ${unsearched.map(without).join("; ")}.`) : null,
  );
}
