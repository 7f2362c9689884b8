// The fields of a receipt, each with its type, its range and its one spelling.
// Mirrors docs/formats/receipt.md, "Verification", steps 2 and 3; errors are named for the field they are about.

import { checkFields, isObject } from "./canonical.js";
import { fromFloatHex, isSha256Hex } from "./encoding.js";
import { fail, show } from "./failure.js";

const REASONS = ["no_acceptable_state", "would_end_warranties", "legal_hold"];
// Refusals whose two numbers are counts of entries or certificates; the others have none.
const COUNTED = ["would_end_warranties", "legal_hold"];
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TIME = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$/;
const WORD = /^[a-z][a-z0-9_-]{0,31}$/;
const VERSION = /^[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}$/;

export function object(value, what, names, error) {
  if (!isObject(value)) fail(error, `${what} is not an object`);
  checkFields(value, names, what, "receipt-field-missing", "receipt-field-unknown");
  return value;
}

export function integer(value, what, error, least = 0) {
  if (!Number.isSafeInteger(value) || value < least) fail(error, `${what} is not a whole number of at least ${least}`);
  return value;
}

export function number(value, what, error, most = 1e300) {
  const found = typeof value === "string" ? fromFloatHex(value) : null;
  // The sign of zero would give one number two spellings.
  if (found === null || !(found >= 0 && found <= most) || Object.is(found, -0)) {
    fail(error, `${what} is not the hexadecimal spelling of a number of at least 0`);
  }
  return found;
}

export function text(value, what, pattern, error) {
  if (typeof value !== "string" || !pattern.test(value)) fail(error, `${what} is not spelled as it should be`);
  return value;
}

export const isUuid = (value) => typeof value === "string" && UUID.test(value);

export function uuid(value, what, error) {
  return text(value, what, UUID, error);
}

export function oneOf(value, what, allowed, error) {
  if (!allowed.includes(value)) fail(error, `${show(value)} is not a known ${what}`);
  return value;
}

export function digest(value, what) {
  if (!isSha256Hex(value)) fail("receipt-state-invalid", `${what} is not a digest`);
  return value;
}

export function time(value) {
  const found = text(value, "time", TIME, "receipt-time-invalid");
  const date = new Date(found);
  // Date carries the 31st of April over into May; the calendar does not have it.
  const exists = !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 19) === found.slice(0, 19);
  if (!exists || found.startsWith("0000")) fail("receipt-time-invalid", `${found} is not a time`);
  return found;
}

export function sizes(value, what) {
  const item = object(value, what, ["live", "pruned"], "receipt-entries-invalid");
  for (const name of ["live", "pruned"]) integer(item[name], name, "receipt-entries-invalid");
  return item;
}

export const ascends = (items) => items.every((item, at) => at === 0 || items[at - 1] < item);

// A list of entries: by commitment, or by the root of a tree over them where they are too many for one statement.
export function listed(value, what) {
  const error = "receipt-commitments-invalid";
  const item = object(value, what, ["commitments", "count", "root"], error);
  const { commitments, count, root } = item;
  integer(count, `${what}: count`, error);
  if (!Array.isArray(commitments) || !commitments.every(isSha256Hex))
    fail(error, `${what} is not a list of commitments`);
  if (!ascends(commitments)) fail(error, `${what}: the commitments do not ascend`);
  if (root !== null && !(isSha256Hex(root) && commitments.length === 0 && count > 0))
    fail(error, `${what}: a root stands for a list that is not there`);
  if (root === null && count !== commitments.length)
    fail("receipt-count-mismatch", `${what}: ${commitments.length} commitments, and a count of ${count}`);
  return item;
}

// The id of a request, and the commitments to its case and actor.
export function requested(value) {
  const error = "receipt-request-invalid";
  const item = object(value, "request", ["id", "case", "actor"], error);
  for (const name of ["case", "actor"]) {
    if (item[name] !== null && !isSha256Hex(item[name])) fail(error, `the ${name} of the request is not a commitment`);
  }
  uuid(item.id, "id of the request", error);
  return item;
}

export function problem(value) {
  const error = "receipt-problem-invalid";
  const item = object(value, "problem", ["cap", "sigma", "dimension", "initial_entries"], error);
  const [cap, sigma] = [number(item.cap, "cap", error), number(item.sigma, "sigma", error)];
  if (!(cap > 0 && cap <= 1 && sigma >= 1e-150 && sigma <= 1e150))
    fail(error, `cap ${cap} or width ${sigma} is out of range`);
  const dimension = integer(item.dimension, "dimension", error, 1);
  const initial = item.initial_entries === null ? null : integer(item.initial_entries, "initial_entries", error);
  return { cap, sigma, dimension, initial };
}

// Only a state that passes the check is ever signed. Returns the kind of the check.
export function checkVerdict(value) {
  const error = "receipt-check-invalid";
  const item = object(value, "check", ["kind", "passed", "tolerance"], error);
  oneOf(item.kind, "kind of a check", ["keys", "sums"], error);
  if (typeof item.passed !== "boolean" || item.tolerance !== "published")
    fail(error, "the check is not a verdict at the published tolerance");
  if (!item.passed) fail("receipt-check-failed", "the state after the edit did not pass the check");
  return item.kind;
}

export function refusal(value) {
  const error = "receipt-refusal-invalid";
  const item = object(value, "refusal", ["reason", "measured", "allowed", "holds"], error);
  const { reason, measured, allowed, holds } = item;
  oneOf(reason, "reason", REASONS, error);
  if (!Array.isArray(holds)) fail(error, "the holds of a refusal are not a list");
  for (const hold of holds) integer(hold, "hold", error, 1);
  if (!ascends(holds)) fail(error, "the numbers of the holds do not ascend");
  const counted = COUNTED.includes(reason);
  if (!counted && (measured !== null || allowed !== null)) fail(error, `a refusal for ${reason} states no numbers`);
  if (counted) for (const name of ["measured", "allowed"]) integer(item[name], name, error);
  // Before the names: whoever counts no hold has none to name.
  if (measured === 0) fail("receipt-refusal-unmeasured", `a refusal for ${reason}, of which there are none`);
  if (holds.length > 0 !== (reason === "legal_hold")) fail(error, "a refusal for holds, and no other, names them");
  if (!counted) return item;
  if (measured <= allowed)
    fail("receipt-refusal-not-exceeded", `${measured} measured and ${allowed} allowed do not refuse`);
  return item;
}

export function pruning(value) {
  const item = object(value, "pruning", ["mode", "unproved"], "receipt-pruning-invalid");
  oneOf(item.mode, "mode", ["archive", "forget"], "receipt-pruning-invalid");
  return { mode: item.mode, unproved: integer(item.unproved, "unproved", "receipt-pruning-invalid") };
}

export function solver(value) {
  const item = object(value, "solver", ["name", "version"], "receipt-solver-invalid");
  text(item.name, "name of the solver", WORD, "receipt-solver-invalid");
  text(item.version, "version of the solver", VERSION, "receipt-solver-invalid");
  return item;
}
