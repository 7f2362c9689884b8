// Sentences about receipts, events and previews. Those about a receipt come from the envelope that this page decoded itself.

import { h, sentence } from "./element.js";
import { ERASED } from "./verify/event.js";
import { count, moment, percent, percentAtMost, plural, quantity } from "./numbers.js";

export const OUTCOMES = {
  created: "created",
  admitted: "admitted",
  certified_zero: "deleted",
  decrement: "deleted",
  refitted: "deleted, refitted",
  emptied: "emptied",
  refused: "refused",
  noop: "nothing to do",
  pruned: "pruned",
  rebuilt: "rebuilt",
  expired: "certificates ended",
  restored: "restored",
  dropped: "memory dropped",
  held: "hold placed",
  released: "hold released",
  subject_erased: "a person erased",
  erased: "erased in several memories",
  listed: "list of entries",
  erasure_requested: "erasure requested",
  erasure_cancelled: "erasure cancelled",
  key_added: "key added",
  key_revoked: "key revoked",
  mirror_added: "mirror added",
  mirror_checked: "mirror searched",
  mirror_removed: "mirror removed",
};

// How far something was done: the state of a line of the ledger, in words, and the look that goes with it.
const STATES = {
  applied: ["Done", "applied"],
  partly_refused: ["Partly refused", "partly"],
  refused: ["Refused: nothing was erased", "refused"],
  nothing: ["Nothing to do", "nothing"],
};

const KEPT = ["refused", "failed"];

// As the service tells it of a line, here of what this page read in the envelope itself; null where there is nothing to grade.
export function stateOf({ isEvent, stated }) {
  if (!isEvent) return stated.outcome === "refused" ? "refused" : stated.outcome === "noop" ? "nothing" : "applied";
  return ["subject_erased", "erased"].includes(stated.event) ? stateOfParts(stated.facts.memories, stated.facts.held) : null;
}

export function stateOfParts(memories, held = 0) {
  const kept = held > 0 || memories.some(({ outcome }) => KEPT.includes(outcome));
  if (!memories.some(({ outcome }) => ERASED.includes(outcome))) return kept ? "refused" : "nothing";
  return kept ? "partly_refused" : "applied";
}

// What a leaf is, in a few words.
export function whatText({ isEvent, stated }) {
  const [kind, state] = [isEvent ? stated.event : stated.outcome, stateOf({ isEvent, stated })];
  if (isEvent && state !== null) return leafText({ kind, state });
  return isEvent ? (OUTCOMES[kind] ?? kind) : `${stated.action}, ${OUTCOMES[kind] ?? kind}`;
}

// `erasing`: whether it is an erasure that was or was not done, and not another edit.
export function stateBadge(state, erasing = true) {
  const [text, kind] = STATES[state];
  const words = state === "refused" && !erasing ? "Refused: nothing was changed" : text;
  return h("p", { class: `state ${kind}` }, h("span", { "aria-hidden": "true" }, SIGNS[kind]), ` ${words}`);
}

const SIGNS = { applied: "✓", partly: "!", refused: "✗", nothing: "–" };

const COVERS = {
  fresh_fit: "The live memory equals a fresh fit of its entries at this cap, within the published tolerance.",
  no_readout_change: "No answer changes, at any query: what was removed weighed exactly nothing.",
  no_readout_change_under_warranty: "No answer changes, at any query, for as long as the warranties hold.",
  fresh_fit_at_new_cap: "A fresh fit at the cap stated here. Nothing is said about the older one.",
  no_entry_left: "Nothing is left to answer with: the memory has no live or archived entry.",
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
  no_acceptable_state: "no solver reached a state that passes the check",
  would_end_warranties: "it would have ended certificates",
  legal_hold: "a hold forbids erasing some of the entries",
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
    admitted: `${entries} ${was} admitted.`,
    certified_zero: `${entries} ${was} deleted. ${receipt.applied.count === 1 ? "It" : "They"} weighed exactly nothing, so no answer changed.`,
    decrement: `${entries} ${was} deleted, and the memory was solved again without ${receipt.applied.count === 1 ? "it" : "them"}.`,
    refitted: `${entries} ${was} deleted. Too few were left for the old cap, so the memory was solved afresh with the rest, at a larger one.`,
    emptied: `${entries} ${was} deleted, and nothing is left: the memory is empty.`,
    refused: `The ${receipt.action} was refused: ${REASONS[receipt.refusal?.reason]}. The memory is what it was before.`,
    noop: `There was nothing to do for this ${receipt.action}.`,
    pruned: `${entries} ${was} pruned, proved to weigh exactly nothing${receipt.pruning?.mode === "forget" ? "; the content is gone. The first erasure of an entry that was live then ends their certificates" : "; the content is kept aside"}.`,
    rebuilt: "The memory was solved afresh at a new cap or width.",
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

const REVOKED = { rotated: "it was replaced", lost: "it was lost", compromised: "somebody else may have it" };
const USES = { receipts: "receipts", heads: "heads of the ledger" };

// The same for an event of the store, which is not a receipt.
export function eventText({ event, facts }) {
  switch (event) {
    case "dropped":
      return `A memory was dropped, with ${plural(facts.live, "live entry", "live entries")} and ${plural(facts.pruned, "pruned one")}.`;
    case "held":
      return `Hold ${facts.hold} was placed on ${facts.entry ? "one entry" : "the entries of a subject"}: what it names cannot be erased until it is released. The reason is not in the ledger.`;
    case "released":
      return facts.cause === "request"
        ? `Hold ${facts.hold} was released.`
        : `Hold ${facts.hold} ended: the backup that was restored did not have it.`;
    case "listed":
      return `Part ${count(facts.part)} of ${count(facts.parts)} of a list that an earlier leaf gives by its root alone: ${plural(facts.commitments.length, "entry", "entries")}.`;
    case "erasure_requested":
      return `The erasure of a person was requested; it is due by ${moment(facts.due)}.`;
    case "erasure_cancelled":
      return `The erasure requested in leaf ${count(facts.requested)} was cancelled.`;
    case "key_added":
      return `From here on, another key may sign ${USES[facts.use]} (${facts.algorithm}).`;
    case "key_revoked":
      return `A key for ${USES[facts.use]} is not valid any more: ${REVOKED[facts.reason]}.`;
    case "mirror_added":
      return `From here on, another system (${facts.system}) has copies of ${facts.of === null ? "all memories" : "a memory"}, and is to follow every erasure.`;
    case "mirror_checked":
      return findingsText(facts.findings);
    case "mirror_removed":
      return `Another system is not kept in step any more; ${plural(facts.pending, "erasure has", "erasures have")} not reached it.`;
    case "erased":
      return erasedTogetherText(facts);
    default:
      return erasedText(facts);
  }
}

function findingsText(findings) {
  const sum = (word) => findings.reduce((total, part) => total + part[word], 0);
  const parts = [
    [sum("absent"), "neither answered with nor in its files"],
    [sum("in_files"), "with bytes still in its files"],
    [sum("not_checkable"), "whose bytes nobody could look for"],
  ];
  const told = parts.filter(([number]) => number).map(([number, text]) => `${count(number)} ${text}`);
  return `Another system was searched for copies of ${plural(sum("entries"), "erased entry", "erased entries")}: ${told.join(", ")}.`;
}

function erasedTogetherText({ memories, held, due }) {
  if (stateOfParts(memories, held) === "refused")
    return `An erasure was refused: nothing was erased in ${plural(memories.length, "memory", "memories")}.${held ? ` Holds kept ${plural(held, "entry", "entries")}.` : ""}`;
  const gone = memories.reduce((total, part) => total + part.entries, 0);
  const left = memories.filter((part) => KEPT.includes(part.outcome)).length;
  const what = `${plural(gone, "entry", "entries")} in ${plural(memories.length, "memory", "memories")}`;
  const kept = held ? ` Holds kept ${plural(held, "entry", "entries")}.` : "";
  const rest = left ? ` In ${plural(left, "memory", "memories")} it was not done.` : "";
  const done = due
    ? `Entries that had ended by ${moment(due)} were erased, with what was made from them: ${what}.`
    : `Entries were erased with what was made from them: ${what}.`;
  return `${done}${kept}${rest}`;
}

function erasedText({ memories, complete }) {
  if (stateOfParts(memories) === "refused")
    return `The erasure of a person was refused: nothing was erased in ${plural(memories.length, "memory", "memories")}.`;
  const gone = memories.reduce((total, part) => total + part.entries, 0);
  const left = memories.filter((part) => KEPT.includes(part.outcome)).length;
  const rest = complete
    ? " Nothing of this person is left in the store."
    : ` In ${plural(left, "memory", "memories")} it was not done.`;
  return `A person was erased from the store: ${plural(gone, "entry", "entries")} in ${plural(memories.length, "memory", "memories")}.${rest}`;
}

// One leaf of the ledger, from the list that the service sends.
export function leafText(leaf) {
  if (leaf.kind === "subject_erased" || leaf.kind === "erased") {
    const what = leaf.kind === "erased" ? "erasure in several memories" : "erasure of a person";
    if (leaf.state === "refused") return `${what} refused`;
    if (leaf.state === "nothing") return `${what}: nothing to do`;
    if (leaf.state === "partly_refused") return `${what} partly refused`;
    if (leaf.kind === "subject_erased" && leaf.applied) return `a person erased: ${plural(leaf.applied, "entry", "entries")}`;
  }
  const entries = leaf.applied ? plural(leaf.applied, "entry", "entries") : null;
  switch (leaf.kind) {
    case "created":
      return `created with ${entries}`;
    case "certified_zero":
    case "decrement":
    case "refitted":
    case "emptied":
      return `${entries} deleted`;
    case "admitted":
      return `${entries} admitted`;
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
  if (preview.outcome === "emptied") return `${entries} would go, and nothing would be left: the memory would be empty.`;
  if (preview.outcome === "refitted") {
    const [before, after] = [quantity(preview.cap_before), quantity(preview.cap)];
    return `${entries} would go. Too few would be left for the old cap, so the remaining ${count(preview.size)} would be fitted again at cap ${after} (now ${before}).`;
  }
  const moved = plural(preview.changed_coefficients, "other entry changes", "other entries change");
  const most =
    preview.readout_bound === null
      ? `the largest change of an answer at ${plural(preview.probes, "sampled key")} is ${percent(preview.readout_change)}`
      : `no answer inside the boundary moves by more than ${percentAtMost(preview.readout_bound)}`;
  return `${entries} would go, and the memory would be solved again: ${moved} weight, ${most} of the value range.`;
}
