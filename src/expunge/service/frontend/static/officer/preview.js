// What an edit would change, before it is made, and the button that makes it.

import { fact, h } from "../element.js";
import { count, percent, percentAtMost, plural, quantity } from "../numbers.js";
import { previewText } from "../receipt_text.js";
import { largeName, typedName } from "./typed_name.js";

const LISTED = 12;
const ENDED = "Certificates of forgotten entries end when an entry goes that was live at their pruning.";
const NOT_COVERED = "This reaches the store, and no copy made before: backups, exports, models that saw the entry.";

// `subject`: whose entries, or null where it is about one entry, which is named by its id.
export function preview(seen, memory, { subject, id }, confirm) {
  const refused = seen.outcome === "refused" || seen.applied.length === 0;
  return h(
    "section",
    { class: refused ? "card stack refusal" : "card stack", "aria-label": "Preview" },
    h("h2", {}, refused ? "Not possible" : "What would change"),
    largeName(subject ?? id),
    h("p", { class: "lead" }, previewText(seen)),
    refused ? null : changes(seen, memory),
    refused ? null : ids(seen.applied),
    refused ? null : along(seen),
    refused || !seen.ended.length ? null : h("p", { class: "muted" }, ENDED),
    refused ? null : h("p", { class: "muted" }, NOT_COVERED),
    refused
      ? null
      : typedName({
          name: subject ?? id,
          what: subject === undefined ? "id" : "name",
          label: `Erase ${plural(total(seen), "entry", "entries")} for good`,
          confirm,
        }),
  );
}

function changes(seen, memory) {
  const archived = seen.reactivated.length ? plural(seen.reactivated.length, "entry", "entries") : "none";
  return h(
    "dl",
    { class: "facts changes" },
    fact("Live entries", `${count(memory.size)} → ${count(seen.size)}`),
    fact("Can go before the cap changes", `${count(memory.deletable)} → ${count(seen.deletable)}`),
    seen.cap === seen.cap_before ? null : fact("Cap", `${quantity(seen.cap_before)} → ${quantity(seen.cap)}`),
    fact("Other weights that move", count(seen.changed_coefficients)),
    fact("Answers move by", moved(seen)),
    fact("Certificates that end for good", seen.ended.length ? count(seen.ended.length) : "none"),
    fact("Certificates that expire", seen.expired.length ? count(seen.expired.length) : "none"),
    fact("Back from the archive", archived),
  );
}

function moved(seen) {
  if (!seen.size) return "there is nothing left to ask";
  if (seen.readout_bound === 0) return "nothing, at any query";
  const sampled = `${percent(seen.readout_change)} at ${plural(seen.probes, "key")} sampled`;
  if (seen.readout_bound === null) return `${sampled}, of the value range; not bounded elsewhere`;
  return `at most ${percentAtMost(seen.readout_bound)} of the value range, inside the boundary (${sampled})`;
}

function ids(applied) {
  const shown = applied.slice(0, LISTED).map((id) => h("li", {}, id));
  const rest =
    applied.length > LISTED ? h("li", { class: "muted" }, `and ${count(applied.length - LISTED)} more`) : null;
  return h("div", {}, h("p", {}, h("b", {}, "To go")), h("ul", { class: "ids" }, shown, rest));
}

// Entries that would go, in other memories, too.
function total({ applied, elsewhere }) {
  return Object.values(elsewhere).reduce((sum, other) => sum + other.applied.length, applied.length);
}

// What goes because it was made from what goes, here and in other memories.
function along({ derived, elsewhere }) {
  const others = Object.values(elsewhere).flatMap((other) => other.derived);
  const made = [...derived, ...others];
  if (!made.length) return null;
  const reasons = Object.entries(elsewhere).filter(([, other]) => other.reason !== null);
  const shown = made.slice(0, LISTED).map(({ memory, id, sources }) => {
    const from = sources.map(([source, name]) => (source === memory ? name : `${name} of ${source}`));
    return h("li", {}, others.length ? `${id} of ${memory}` : id, from.length ? `, made from ${from.join(", ")}` : "");
  });
  const rest = made.length > LISTED ? h("li", { class: "muted" }, `and ${count(made.length - LISTED)} more`) : null;
  return h(
    "div",
    { class: "along" },
    h("p", {}, h("b", {}, "Made from them, and to go, too")),
    h("ul", { class: "ids" }, shown, rest),
    reasons.map(([name, other]) => h("p", { class: "muted" }, `In ${name} it would be refused: ${other.reason}`)),
  );
}
