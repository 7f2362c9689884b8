// Sentences about receipts, events and previews. Those about a receipt come from the envelope that this page decoded itself.

import { percent, plural } from "./numbers.js";
import { sentence } from "./view_state.js";

export const OUTCOMES = {
  created: "created",
  admitted: "admitted",
  certified_zero: "deleted",
  decrement: "deleted",
  refused: "refused",
  noop: "nothing to do",
  pruned: "pruned",
  rebuilt: "rebuilt",
  expired: "certificates ended",
  restored: "restored",
  dropped: "memory dropped",
  held: "hold placed",
  released: "hold released",
  subject_erased: "subject erased",
};

const COVERS = {
  fresh_fit: "The live memory equals a fresh fit of its entries at this cap, within the published tolerance.",
  no_readout_change: "No answer changes, at any query: what was removed weighed exactly nothing.",
  no_readout_change_under_warranty: "No answer changes, at any query, for as long as the warranties hold.",
  fresh_fit_at_new_cap: "A fresh fit at the cap stated here. Nothing is said about the older one.",
  nothing: "It claims nothing about the content of the memory.",
};

const NOT_COVERED = {
  prior_copies: "copies made before the edit",
  re_encoding: "re-encoding of the remaining entries",
  model_weights: "the weights of any model that saw the entry",
  changed_cap: "a refit at another cap",
  admissions_without_warranty: "later admissions, unless a warranty says so",
};

const REASONS = {
  too_few_entries: "too few entries would remain at this cap",
  no_acceptable_state: "no solver reached a state that passes the check",
  would_end_warranties: "it would have ended certificates",
  legal_hold: "a hold forbids erasing some of the entries",
  state_conflict: "the memory was not in the state that the caller expected",
};

export const covers = (receipt) => COVERS[receipt.covers];
export const notCovered = (receipt) => receipt.doesNotCover.map((code) => NOT_COVERED[code]);

// The summary of a parsed receipt.
export function receiptText(receipt) {
  const entries = plural(receipt.applied.count, "entry", "entries");
  const left = `${plural(receipt.entries.after.live, "entry is", "entries are")} live now`;
  const pruned = receipt.entries.after.pruned ? `, ${plural(receipt.entries.after.pruned, "is", "are")} pruned` : "";
  const state = `${left}${pruned}.`;
  const was = receipt.applied.count === 1 ? "was" : "were";
  const sentences = {
    created: `A memory was created with ${entries}.`,
    admitted: "One entry was admitted.",
    certified_zero: `${entries} ${was} deleted. ${receipt.applied.count === 1 ? "It" : "They"} weighed exactly nothing, so no answer changed.`,
    decrement: `${entries} ${was} deleted, and the memory was solved again without ${receipt.applied.count === 1 ? "it" : "them"}.`,
    refused: `The ${receipt.action} was refused: ${REASONS[receipt.refusal?.reason]}. The memory is what it was before.`,
    noop: `There was nothing to do for this ${receipt.action}.`,
    pruned: `${entries} ${was} pruned, proved to weigh exactly nothing${receipt.pruning?.mode === "forget" ? "; the content is gone. The first erasure of an entry that was live then ends their certificates" : "; the content is kept aside"}.`,
    rebuilt: "The memory was solved afresh at a new cap.",
    expired: "A notice about certificates of pruned entries, apart from the receipt of the edit.",
    restored:
      "The memory went back to an older state, from a backup; erasures since then are applied again after this.",
  };
  return [sentences[receipt.outcome], ...warrantyText(receipt), state].join(" ");
}

function warrantyText(receipt) {
  const parts = [];
  if (receipt.ended.count)
    parts.push(
      `${plural(receipt.ended.count, "certificate")} of forgotten entries ended for good: the numbers behind ${receipt.ended.count === 1 ? "it" : "them"} could tell what was erased, and are gone.`,
    );
  if (receipt.expired.count)
    parts.push(`${plural(receipt.expired.count, "certificate")} expired: not proved with the present entries.`);
  if (receipt.reactivated.count)
    parts.push(`${plural(receipt.reactivated.count, "entry", "entries")} came back from the archive.`);
  if (receipt.renewed.count)
    parts.push(
      `${plural(receipt.renewed.count, "certificate was", "certificates were")} renewed after an exact recheck.`,
    );
  return parts;
}

// The same for an event of the store, which is not a receipt.
export function eventText(predicate) {
  const { event, facts } = predicate;
  if (event === "dropped")
    return `A memory was dropped, with ${plural(facts.live, "live entry", "live entries")} and ${plural(facts.pruned, "pruned one")}.`;
  if (event === "held")
    return "A hold was placed: what it names cannot be erased until it is released. The reason is not in the ledger.";
  if (event === "released") return "A hold was released.";
  const gone = facts.memories.reduce((total, part) => total + part.entries, 0);
  const left = facts.memories.filter((part) => ["refused", "failed"].includes(part.outcome)).length;
  const rest = left
    ? ` In ${plural(left, "memory", "memories")} it was not done.`
    : " Nothing of the subject is left in the store.";
  return `A subject was erased from the store: ${plural(gone, "entry", "entries")} in ${plural(facts.memories.length, "memory", "memories")}.${rest}`;
}

// One leaf of the ledger, from the list that the service sends.
export function leafText(leaf) {
  const entries = leaf.applied ? plural(leaf.applied, "entry", "entries") : null;
  switch (leaf.kind) {
    case "created":
      return `created with ${entries}`;
    case "certified_zero":
    case "decrement":
      return `${entries} deleted`;
    case "admitted":
      return "1 entry admitted";
    case "pruned":
      return `${entries} pruned`;
    default:
      return OUTCOMES[leaf.kind] ?? leaf.kind;
  }
}

// What a preview says would happen.
export function previewText(preview) {
  const entries = plural(preview.applied.length, "entry", "entries");
  if (preview.outcome === "refused") return sentence(`it would be refused: ${preview.reason}`);
  if (preview.outcome === "noop") return "There is nothing to delete.";
  if (preview.outcome === "certified_zero") {
    return `${entries} would go. ${preview.applied.length === 1 ? "It weighs" : "They weigh"} exactly nothing, so no answer would change.`;
  }
  const moved = plural(preview.changed_coefficients, "other entry changes", "other entries change");
  return `${entries} would go, and the memory would be solved again: ${moved} weight, answers move by up to ${percent(preview.readout_change)} of the value range.`;
}
