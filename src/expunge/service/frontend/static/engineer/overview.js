// Every memory of the store at a glance: how large, how its weight is spread, how much can still go.

import { fact, h, withCode } from "../element.js";
import { GROUPS, mark } from "../groups.js";
import { headLine } from "../ledger/ledger_head.js";
import { count, plural, quantity } from "../numbers.js";
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
      ? h("ul", { class: "memories" }, memories.map(card))
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

function card(memory) {
  const parts = { ...memory.partition, archived: memory.archived, forgotten: memory.forgotten };
  const total = Object.values(parts).reduce((sum, size) => sum + size, 0);
  const pruned = memory.archived + memory.forgotten;
  return h(
    "li",
    { class: "card" },
    h("h2", {}, h("a", { class: "stretched", href: `#/m/${addressOf(memory)}` }, memory.name)),
    h(
      "p",
      { class: "figure" },
      memory.size
        ? [h("b", {}, count(memory.size)), ` live ${memory.size === 1 ? "entry" : "entries"}, `]
        : [h("b", {}, "Empty"), ": no entries; keys of "],
      memory.size ? `${plural(memory.dimension, "coordinate")} each` : plural(memory.dimension, "coordinate"),
    ),
    h(
      "div",
      { class: "split", "aria-hidden": "true" },
      Object.entries(parts)
        .filter(([, size]) => size)
        .map(([group, size]) => slice(group, size / total)),
    ),
    h(
      "ul",
      { class: "legend small" },
      Object.entries(parts)
        .filter(([, size]) => size)
        .map(([group, size]) => h("li", {}, mark(group), `${count(size)} ${GROUPS[group].label}`)),
    ),
    h(
      "dl",
      { class: "facts" },
      fact("Can go before the cap changes", count(memory.deletable)),
      fact(
        "Certificates",
        pruned ? `${count(pruned - memory.expired)} valid, ${count(memory.expired)} expired or ended` : "none yet",
      ),
      fact("Edits", count(memory.edit)),
      fact("Cap, width", `${quantity(memory.cap)}, ${quantity(memory.sigma)}`),
    ),
  );
}

function slice(group, fraction) {
  const part = h("span", { class: group });
  part.style.flexGrow = fraction;
  return part;
}
