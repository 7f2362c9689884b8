// What an edit would change, before it is made, and the button that makes it.

import { fact, h } from "./element.js";
import { count, percent, plural, short } from "./numbers.js";
import { previewText } from "./receipt_text.js";

const LISTED = 12;
const ENDED = "Certificates of forgotten entries end when an entry goes that was live at their pruning.";
const NOT_COVERED = "This reaches the store, and no copy made before: backups, exports, models that saw the entry.";

export function preview(seen, memory, confirm) {
  const refused = seen.outcome === "refused" || seen.applied.length === 0;
  return h(
    "section",
    { class: refused ? "card stack refusal" : "card stack", "aria-label": "Preview" },
    h("h2", {}, refused ? "Not possible" : "What would change"),
    h("p", { class: "lead" }, previewText(seen)),
    refused ? null : changes(seen, memory),
    refused ? null : ids(seen.applied),
    refused || !seen.ended.length ? null : h("p", { class: "muted" }, ENDED),
    refused ? null : h("p", { class: "muted" }, NOT_COVERED),
    refused ? null : button(`Erase ${plural(seen.applied.length, "entry", "entries")} for good`, confirm),
  );
}

function changes(seen, memory) {
  const archived = seen.reactivated.length ? plural(seen.reactivated.length, "entry", "entries") : "none";
  return h(
    "dl",
    { class: "facts changes" },
    fact("Live entries", `${count(memory.size)} → ${count(seen.size)}`),
    fact("Can still be deleted", `${count(memory.deletable)} → ${count(seen.deletable)}`),
    fact("Other weights that move", count(seen.changed_coefficients)),
    fact(
      "Answers move by",
      seen.readout_change
        ? `at most ${percent(seen.readout_change)} of the value range, at ${plural(seen.probes, "key")} tried`
        : "nothing",
    ),
    fact("Certificates that end for good", seen.ended.length ? count(seen.ended.length) : "none"),
    fact("Certificates that expire", seen.expired.length ? count(seen.expired.length) : "none"),
    fact("Back from the archive", archived),
  );
}

function ids(applied) {
  const shown = applied.slice(0, LISTED).map((id) => h("li", {}, id));
  const rest =
    applied.length > LISTED ? h("li", { class: "muted" }, `and ${count(applied.length - LISTED)} more`) : null;
  return h("div", {}, h("p", {}, h("b", {}, "To go")), h("ul", { class: "ids" }, shown, rest));
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
  const total = names.reduce((sum, name) => sum + memories[name].applied.length, 0);
  const refused = names.filter((name) => memories[name].outcome === "refused");
  return h(
    "section",
    { class: "card stack", "aria-label": "Preview" },
    h("h2", {}, "What would change"),
    h(
      "p",
      { class: "lead" },
      `${plural(total, "entry", "entries")} in ${plural(names.length - refused.length, "memory", "memories")} would go.${refused.length ? ` In ${refused.join(", ")} it would be refused.` : ""}`,
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
    total ? button(`Erase ${plural(total, "entry", "entries")} everywhere for good`, confirm) : null,
  );
}

export function storeErasure(result) {
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
