// The receipt inside a statement: every field, and no contradiction between them.
// Mirrors docs/formats/receipt.md, "Verification", steps 2 to 8.

import { fromFloatHex } from "./encoding.js";
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
  sizes,
  solver,
  text,
  time,
} from "./fields.js";

export const RECEIPT_TYPE = "urn:expunge:receipt:v2";

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
  "pruning",
  "refusal",
  "covers",
  "state",
  "entries",
  "warranties",
  "check",
  "tolerances",
  "does_not_cover",
];
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// Returns the receipt with floats as numbers.
export function parseReceipt(statement) {
  if (statement.type !== RECEIPT_TYPE)
    fail("statement-predicate-type-mismatch", `${show(statement.type)} is not ${RECEIPT_TYPE}`);
  const found = object(statement.predicate, "the receipt", fieldsOf(statement.predicate), "receipt-error");
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
    memory: text(found.memory, "memory", UUID, "receipt-memory-invalid"),
    edit: integer(found.edit, "edit", "receipt-edit-invalid"),
    action: oneOf(found.action, "action", ACTIONS, "receipt-action-invalid"),
    time: time(found.time),
    before: state.before === null ? null : digest(state.before, "state before"),
    after: digest(state.after, "state after"),
    entries: { before: sizes(entries.before, "entries before"), after: sizes(entries.after, "entries after") },
    applied: listed(found.applied, "applied"),
    problem: problem(found.problem),
    solver: solver(found.solver),
    ended: listed(warranties.ended, "ended"),
    expired: listed(warranties.expired, "expired"),
    renewed: listed(warranties.renewed, "renewed"),
    reactivated: listed(warranties.reactivated, "reactivated"),
    pruning: found.pruning === null ? null : pruning(found.pruning),
    refusal: found.refusal === null ? null : refusal(found.refusal),
    restoredEdit: restoredEdit(found),
    covers: found.covers,
    doesNotCover: found.does_not_cover,
  };
  checkVerdict(found.check);
  const tolerances = object(found.tolerances, "tolerances", Object.keys(TOLERANCES), "receipt-tolerances-invalid");
  if (
    Object.entries(TOLERANCES).some(
      ([name, value]) => typeof tolerances[name] !== "string" || fromFloatHex(tolerances[name]) !== value,
    )
  ) {
    fail("receipt-tolerances-invalid", `tolerances other than those of ${RECEIPT_TYPE}`);
  }
  if (
    found.covers !== RULES[receipt.outcome][1] ||
    JSON.stringify(found.does_not_cover) !== JSON.stringify(DOES_NOT_COVER)
  ) {
    fail("receipt-coverage-invalid", `the outcome ${receipt.outcome} covers something else`);
  }
  checkStates(receipt);
  checkEntries(receipt);
  checkSubjects(receipt, statement.subjects);
  return receipt;
}

// A restoration may state the edit that it went back to; older ones do not.
function fieldsOf(predicate) {
  const restores = predicate?.action === "restoration" && Object.hasOwn(predicate, "restored_edit");
  return restores ? [...FIELDS, "restored_edit"] : FIELDS;
}

function restoredEdit(found) {
  if (!Object.hasOwn(found, "restored_edit")) return null;
  const edit = integer(found.restored_edit, "restored edit", "receipt-edit-invalid");
  if (edit >= found.edit) fail("receipt-edit-invalid", `restored to edit ${edit}, which is not before edit ${found.edit}`);
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
  const exact = (size) => ({ live: BigInt(size.live), pruned: BigInt(size.pruned) });
  const [before, after] = [exact(entries.before), exact(entries.after)];
  const total = (size) => size.live + size.pruned;
  const same = before.live === after.live && before.pruned === after.pruned;
  const [count, back, named] = [applied.count, reactivated.count, applied.commitments.length].map(BigInt);
  const nothing = count === 0n && back === 0n && renewed.count === 0;
  const over = BigInt(ended.count) + BigInt(expired.count);
  if (outcome === "created")
    return total(before) === 0n && after.pruned === 0n && after.live === count && [0n, count].includes(named);
  if (outcome === "refused" || outcome === "noop") return same && nothing && over === 0n;
  if (outcome === "expired") return same && nothing && over > 0n;
  if (outcome === "restored") return nothing && over === 0n;
  if (action === "admission") {
    // Only what takes entries away for good, or changes the cap, ends certificates.
    const one = named === 1n && count === 1n && ended.count === 0;
    return one && total(after) - total(before) === 1n && after.live === before.live + 1n + back;
  }
  if (action === "deletion") {
    // Some may have been pruned before; the others were live.
    const went = before.live + back - after.live;
    return count > 0n && count === total(before) - total(after) && went >= 0n && went <= count;
  }
  if (action === "pruning") {
    return (
      count > 0n &&
      count === before.live - after.live &&
      total(before) === total(after) &&
      back === 0n &&
      [0n, count].includes(named) &&
      (pruned?.mode === "forget" || ended.count === 0)
    );
  }
  return count === 0n && total(before) === total(after) && after.live === before.live + back;
}

function checkEntries(receipt) {
  if (addsUp(receipt) && receipt.entries.after.live > 0) return;
  const { before, after } = receipt.entries;
  fail(
    "receipt-entries-mismatch",
    `${receipt.outcome}: ${before.live} live and ${before.pruned} pruned before, ${after.live} and ${after.pruned} after ` +
      "do not follow from what was applied",
  );
}

function checkSubjects({ before, after }, subjects) {
  const expected = [["state_after", after], ...(before === null ? [] : [["state_before", before]])];
  const agree =
    subjects.length === expected.length &&
    subjects.every(({ name, sha256 }, at) => name === expected[at][0] && sha256 === expected[at][1]);
  if (!agree) fail("receipt-subject-mismatch", "the statement is not about the states that its receipt names");
}
