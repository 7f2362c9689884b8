// What an edit would change, before it is made, and the button that makes it.

import { fact, h } from "../element.js";
import { count, percent, percentAtMost, plural, quantity, short } from "../numbers.js";
import { previewText } from "../receipt_text.js";

const LISTED = 12;
const ENDED = "Certificates of forgotten entries end when an entry goes that was live at their pruning.";
const NOT_COVERED = "This reaches the store, and no copy made before: backups, exports, models that saw the entry.";

const NOBODY = "No entry belongs to this subject.";

export function preview(seen, memory, confirm) {
  const refused = seen.outcome === "refused" || seen.applied.length === 0;
  return h(
    "section",
    { class: refused ? "card stack refusal" : "card stack", "aria-label": "Preview" },
    h("h2", {}, refused ? "Not possible" : "What would change"),
    h("p", { class: "lead" }, previewText(seen)),
    refused ? null : changes(seen, memory),
    refused ? null : ids(seen.applied),
    refused ? null : along(seen),
    refused || !seen.ended.length ? null : h("p", { class: "muted" }, ENDED),
    refused ? null : h("p", { class: "muted" }, NOT_COVERED),
    refused ? null : button(`Erase ${plural(total(seen), "entry", "entries")} for good`, confirm),
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

function button(label, confirm) {
  const pressed = (event) => {
    event.currentTarget.disabled = true;
    confirm();
  };
  return h(
    "div",
    { class: "row" },
    h("button", { type: "button", class: "danger solid", onclick: pressed }, label),
    h("span", { class: "muted" }, "This cannot be undone."),
  );
}

export function storePreview(memories, confirm) {
  const names = Object.keys(memories);
  const all = names.reduce((sum, name) => sum + memories[name].applied.length, 0);
  const refused = names.filter((name) => memories[name].outcome === "refused");
  if (!names.length)
    return h("section", { class: "card", "aria-label": "Preview" }, h("p", { class: "lead" }, NOBODY));
  return h(
    "section",
    { class: "card stack", "aria-label": "Preview" },
    h("h2", {}, "What would change"),
    h(
      "p",
      { class: "lead" },
      `${plural(all, "entry", "entries")} in ${plural(names.length - refused.length, "memory", "memories")} would go.${refused.length ? ` In ${refused.join(", ")} it would be refused.` : ""}`,
    ),
    h(
      "ul",
      { class: "per-memory" },
      names.map((name) => h("li", {}, h("b", {}, name), `: ${previewText(memories[name])}`)),
    ),
    h(
      "p",
      { class: "muted" },
      "Each memory is one transaction with its own receipt; one more sums them up. ",
      NOT_COVERED,
    ),
    all ? button(`Erase ${plural(all, "entry", "entries")} everywhere for good`, confirm) : null,
  );
}

// What an erasure passes over: subjects that look alike, each with a button that looks at it, and entries without any.
export function foundBesides({ look_alikes: alike, not_searched: unsearched }, choose) {
  if (!alike?.length && !unsearched?.length) return null;
  const offer = ({ subject, entries, memories }) =>
    h(
      "li",
      { class: "row" },
      h("button", { type: "button", onclick: () => choose(subject) }, h("code", { class: "exact" }, spelled(subject))),
      h("span", {}, `${plural(entries, "entry", "entries")} in ${memories.join(", ")}`),
    );
  const without = ({ memory, unnamed, entries }) =>
    `${memory} (${unnamed} of ${plural(entries, "entry", "entries")} without a subject)`;
  return h(
    "section",
    { class: "card stack", "aria-label": "Not erased" },
    alike?.length ? h("p", {}, "These look alike and are not touched. The same person? Look at each by its name:") : null,
    alike?.length ? h("ul", { class: "per-memory" }, alike.map(offer)) : null,
    unsearched?.length ? h("p", {}, `Not searched: ${unsearched.map(without).join("; ")}.`) : null,
  );
}

// Characters that cannot be seen, or told from others, by their numbers.
function spelled(subject) {
  const hidden = subject === subject.normalize("NFC") ? /\p{C}|(?! )\p{Z}/gu : /\p{C}|\p{M}|(?! )\p{Z}/gu;
  return subject.replace(hidden, (one) => `\\u{${one.codePointAt(0).toString(16).padStart(4, "0")}}`);
}

export function storeErasure(result) {
  if (result.index === null)
    return h("section", { class: "card", "aria-label": "Erasure" }, h("p", {}, `${NOBODY} Nothing was written.`));
  return h(
    "section",
    { class: "card stack", "aria-label": "Erasure" },
    h(
      "p",
      {},
      h("span", { class: `sign ${result.complete ? "passed" : "failed"}` }, result.complete ? "✓" : "✗"),
      result.complete ? " Nothing of the subject is left in the store." : " It is not complete: see below.",
    ),
    h(
      "ul",
      { class: "per-memory" },
      result.memories.map((part) =>
        h(
          "li",
          {},
          h("b", {}, part.memory),
          `: ${plural(part.applied.length, "entry", "entries")} erased. `,
          part.reason ?? "",
          part.index === null ? null : h("a", { href: `#/ledger/${part.index}` }, `Receipt ${part.index}`),
        ),
      ),
    ),
    h(
      "dl",
      { class: "facts" },
      fact("Salt", h("code", { title: result.salt }, short(result.salt)), " ", copy(result.salt)),
    ),
    h(
      "p",
      { class: "muted" },
      "The summary names the subject by a commitment. This salt opens it, for whoever must show whose data went. It is stored nowhere: keep it, or let it go.",
    ),
  );
}

function copy(text) {
  const done = async (event) => {
    const { currentTarget } = event;
    await navigator.clipboard.writeText(text);
    currentTarget.textContent = "Copied";
  };
  return h("button", { type: "button", class: "quiet", onclick: done }, "Copy");
}
