// The receipt inside a statement: every field, and no contradiction between them.
// Mirrors docs/formats/receipt.md, "Verification", steps 2 to 8.

import { toFloatHex } from "./encoding.js";
import { fail, show } from "./failure.js";
import {
  checkVerdict,
  digest,
  integer,
  listed,
  object,
  oneOf,
  problem,
  pruning,
  refusal,
  requested,
  sizes,
  solver,
  time,
  uuid,
} from "./fields.js";

export const RECEIPT_TYPE = "urn:expunge:receipt:v3";

// Coordinates of kernel values up to which every edit recomputes all slacks; a value has at least so many.
const [WITHIN_REACH, LEAST_COORDINATES] = [1e6, 16];
const TOLERANCES = { acceptance: 1e-5, partition: 1e-7, published: 1e-9 };
const ACTIONS = ["creation", "admission", "deletion", "pruning", "rebuild", "expiry", "restoration"];
const DOES_NOT_COVER = ["prior_copies", "re_encoding", "model_weights", "changed_cap", "admissions_without_warranty"];
const EDITS = ["admission", "deletion", "pruning", "rebuild"];
// Outcome → actions it can come of, what it covers, whether the state changes (null: it may).
const RULES = {
  created: [["creation"], "fresh_fit", null],
  admitted: [["admission"], "fresh_fit", true],
  certified_zero: [["deletion"], "no_readout_change", null],
  decrement: [["deletion"], "fresh_fit", true],
  refitted: [["deletion"], "fresh_fit_at_new_cap", true],
  emptied: [["deletion"], "no_entry_left", true],
  refused: [EDITS, "nothing", false],
  noop: [EDITS, "nothing", false],
  pruned: [["pruning"], "no_readout_change_under_warranty", true],
  rebuilt: [["rebuild"], "fresh_fit_at_new_cap", null],
  expired: [["expiry"], "nothing", false],
  restored: [["restoration"], "nothing", null],
};
const FIELDS = [
  "memory",
  "edit",
  "action",
  "outcome",
  "time",
  "applied",
  "problem",
  "solver",
  "request",
  "pruning",
  "refusal",
  "restored_edit",
  "covers",
  "state",
  "entries",
  "warranties",
  "check",
  "tolerances",
  "does_not_cover",
];
// Outcomes that name an entry at least, and those after which a memory may be empty.
const NAMES_ENTRIES = ["admitted", "certified_zero", "decrement", "refitted", "emptied", "pruned"];
const MAY_BE_EMPTY = ["created", "emptied", "refused", "noop", "expired", "restored", "certified_zero"];

// Returns the receipt with floats as numbers.
export function parseReceipt(statement) {
  if (statement.type !== RECEIPT_TYPE)
    fail("statement-predicate-type-mismatch", `${show(statement.type)} is not ${RECEIPT_TYPE}`);
  const found = object(statement.predicate, "the receipt", FIELDS, "receipt-error");
  oneOf(found.outcome, "outcome", Object.keys(RULES), "receipt-outcome-invalid");
  const state = object(found.state, "state", ["before", "after"], "receipt-state-invalid");
  const entries = object(found.entries, "entries", ["before", "after"], "receipt-entries-invalid");
  const warranties = object(
    found.warranties,
    "warranties",
    ["ended", "expired", "renewed", "reactivated"],
    "receipt-commitments-invalid",
  );
  const receipt = {
    outcome: found.outcome,
    memory: uuid(found.memory, "memory", "receipt-memory-invalid"),
    edit: integer(found.edit, "edit", "receipt-edit-invalid"),
    action: oneOf(found.action, "action", ACTIONS, "receipt-action-invalid"),
    time: time(found.time),
    before: state.before === null ? null : digest(state.before, "state before"),
    after: digest(state.after, "state after"),
    entries: { before: sizes(entries.before, "entries before"), after: sizes(entries.after, "entries after") },
    applied: listed(found.applied, "applied"),
    problem: problem(found.problem),
    solver: solver(found.solver),
    request: requested(found.request),
    ended: listed(warranties.ended, "ended"),
    expired: listed(warranties.expired, "expired"),
    renewed: listed(warranties.renewed, "renewed"),
    reactivated: listed(warranties.reactivated, "reactivated"),
    pruning: found.pruning === null ? null : pruning(found.pruning),
    refusal: found.refusal === null ? null : refusal(found.refusal),
    restoredEdit: restoredEdit(found),
    covers: found.covers,
    doesNotCover: found.does_not_cover,
    checkKind: checkVerdict(found.check),
  };
  const tolerances = object(found.tolerances, "tolerances", Object.keys(TOLERANCES), "receipt-tolerances-invalid");
  if (Object.entries(TOLERANCES).some(([name, value]) => tolerances[name] !== toFloatHex(value)))
    fail("receipt-tolerances-invalid", `tolerances other than those of ${RECEIPT_TYPE}`);
  if (
    found.covers !== RULES[receipt.outcome][1] ||
    JSON.stringify(found.does_not_cover) !== JSON.stringify(DOES_NOT_COVER)
  ) {
    fail("receipt-coverage-invalid", `the outcome ${receipt.outcome} covers something else`);
  }
  checkStates(receipt);
  checkEntries(receipt);
  checkCheckKind(receipt);
  checkSubjects(receipt, statement.subjects);
  return receipt;
}

// Active entries are at least 1/cap and at most all; n · active · d decides what the check takes its slacks from.
function checkCheckKind(receipt) {
  const [live, { cap, dimension }] = [receipt.entries.after.live, receipt.problem];
  const width = Math.max(dimension, LEAST_COORDINATES);
  const wrong = receipt.checkKind === "keys" ? live * width > WITHIN_REACH * cap : !(live * live * width > WITHIN_REACH);
  if (wrong) fail("receipt-check-invalid", `${live} live entries are not checked from ${receipt.checkKind}`);
}

function restoredEdit(found) {
  const error = "receipt-edit-invalid";
  if ((found.restored_edit === null) === (found.action === "restoration"))
    fail(error, "a restoration, and nothing else, names an earlier edit");
  if (found.restored_edit === null) return null;
  const edit = integer(found.restored_edit, "restored edit", error);
  if (edit >= found.edit) fail(error, `restored to edit ${edit}, which is not before edit ${found.edit}`);
  return edit;
}

function checkStates(receipt) {
  const [actions, , changes] = RULES[receipt.outcome];
  if (!actions.includes(receipt.action)) {
    fail("receipt-action-mismatch", `the outcome of a ${receipt.action} cannot be ${receipt.outcome}`);
  }
  if ((receipt.before === null) !== (receipt.action === "creation")) {
    fail("receipt-state-mismatch", "a creation, and nothing else, has no state before it");
  }
  if (changes !== null && changes === (receipt.before === receipt.after)) {
    fail("receipt-state-mismatch", `${receipt.outcome}, yet the state ${changes ? "stayed" : "changed"}`);
  }
  if ((receipt.refusal !== null) !== (receipt.outcome === "refused")) {
    fail("receipt-refusal-mismatch", "a refusal, and nothing else, has a reason");
  }
  if ((receipt.pruning !== null) !== (receipt.action === "pruning" && receipt.outcome !== "refused")) {
    fail("receipt-pruning-mismatch", "a pruning, and nothing else, has a mode");
  }
}

function addsUp({ outcome, action, entries, applied, reactivated, renewed, expired, ended, pruning: pruned }) {
  // Each number is exact; sums of them need not be.
  const exact = (size) => ({ live: BigInt(size.live), total: BigInt(size.live) + BigInt(size.pruned) });
  const [before, after] = [exact(entries.before), exact(entries.after)];
  const [count, back, ends] = [applied, reactivated, ended].map((list) => BigInt(list.count));
  const same = before.live === after.live && before.total === after.total;
  const none = back === 0n && renewed.count === 0;
  const nothing = none && count === 0n;
  const over = ends + BigInt(expired.count);
  if (outcome === "created")
    return before.total === 0n && after.total === after.live && after.live === count && none && over === 0n;
  if (outcome === "refused" || outcome === "noop") return same && nothing && over === 0n;
  if (outcome === "expired") return same && nothing && over > 0n;
  if (outcome === "restored") return nothing && over === 0n;
  if (action === "admission") {
    // Only what takes entries away for good, or changes the cap, ends certificates.
    const came = count === after.total - before.total;
    return came && after.live === before.live + count + back && ends === 0n;
  }
  if (action === "deletion") {
    // Some may have been pruned before; the others were live.
    const went = before.live + back - after.live;
    const gone = count === before.total - after.total && went >= 0n && went <= count;
    return gone && (outcome !== "emptied" || (after.live === 0n && before.live > 0n));
  }
  if (action === "pruning") {
    const set = count === before.live - after.live && before.total === after.total;
    return set && back === 0n && (pruned?.mode === "forget" || ends === 0n);
  }
  return count === 0n && before.total === after.total && after.live === before.live + back;
}

function checkEntries(receipt) {
  const { before, after } = receipt.entries;
  const { outcome, applied } = receipt;
  if (applied.count === 0 && NAMES_ENTRIES.includes(outcome))
    fail("receipt-applied-empty", `${outcome}, and no entry is named`);
  const empties = outcome === "certified_zero" && before.live > 0;
  if (after.live === 0 && (empties || !MAY_BE_EMPTY.includes(outcome)))
    fail("receipt-empty-unstated", `${outcome}, which leaves no live entry and does not say so`);
  if (!addsUp(receipt)) {
    fail(
      "receipt-entries-mismatch",
      `${outcome}: ${before.live} live and ${before.pruned} pruned before, ${after.live} and ${after.pruned} after ` +
        "do not follow from what was applied",
    );
  }
  const { cap } = receipt.problem;
  if (after.live === 0 ? cap !== 1 : !reachesOne(after.live, cap)) {
    fail(
      "receipt-cap-infeasible",
      `${after.live} live entries at cap ${cap}: a memory has none at cap 1, or at least 1/cap`,
    );
  }
}

// ⌈1/cap⌉, exactly; 0 < cap ≤ 1.
export function fewestLive(cap) {
  let [whole, shift] = [cap, 0n];
  // Doubling is exact: it only moves the exponent.
  while (!Number.isInteger(whole)) [whole, shift] = [whole * 2, shift + 1n];
  return ((1n << shift) + BigInt(whole) - 1n) / BigInt(whole);
}

// Whether number · cap ≥ 1, exactly.
export const reachesOne = (number, cap) => BigInt(number) >= fewestLive(cap);

function checkSubjects({ before, after }, subjects) {
  const expected = [["state_after", after], ...(before === null ? [] : [["state_before", before]])];
  const agree =
    subjects.length === expected.length &&
    subjects.every(({ name, sha256 }, at) => name === expected[at][0] && sha256 === expected[at][1]);
  if (!agree) fail("receipt-subject-mismatch", "the statement is not about the states that its receipt names");
}
