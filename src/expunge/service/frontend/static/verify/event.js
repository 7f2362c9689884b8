// Events of a store: what happened that is no edit of one memory. Mirrors docs/formats/store.md, "Ledger".

import { isObject } from "./canonical.js";
import { fromBase64, isSha256Hex } from "./encoding.js";
import { fail, VerificationError } from "./failure.js";
import { ascends, isUuid, listed, requested, time } from "./fields.js";

export const EVENT_TYPE = "urn:expunge:store-event:v2";
// Outcomes of a subject's deletion in one memory: those that erase, and those that leave everything.
export const ERASED = ["certified_zero", "decrement", "refitted", "emptied"];
const KEPT = ["noop", "refused", "failed"];
// What is found of erased entries in a mirror that was searched after their deletion there.
export const FOUND = ["absent", "in_files", "not_checkable"];
const MOST_FINDINGS = 10_000;
// Events that say what an erasure did in several memories.
const SUMMARIES = ["subject_erased", "erased"];
// The lists of a receipt, or of the event of a drop, that may follow it in parts.
export const LISTS = ["applied", "ended", "expired", "renewed", "reactivated", "entries"];
export const MAX_LISTED = 50_000;
const MOST_PARTS = 1_000_000;
const MAX_KEY = 512;

const isNumber = (value) => Number.isSafeInteger(value) && value >= 0;
const isPositive = (value) => Number.isSafeInteger(value) && value >= 1;
const isBoolean = (value) => typeof value === "boolean";
const optional = (isValid) => (value) => value === null || isValid(value);
const among =
  (...words) =>
  (value) =>
    words.includes(value);
const isTime = (value) => holds(() => time(value));
const isList = (value) => holds(() => listed(value, "entries"));
const isUse = among("receipts", "heads");

// Kind → its facts; what else is particular about it.
const SHAPES = {
  dropped: { facts: { live: isNumber, pruned: isNumber, entries: optional(isList) } },
  held: { facts: { hold: isPositive, entry: optional(isSha256Hex) } },
  released: { facts: { hold: isPositive, cause: among("request", "lost_in_restore") } },
  subject_erased: {
    facts: { memories: isSummary, complete: isBoolean, requested: optional(isNumber) },
    about: "subject",
    agrees: isCompleteAsStated,
  },
  // A sweep says by which time everything that it erased had ended, and how many entries it left to holds.
  erased: {
    facts: { memories: isSummary, complete: isBoolean, held: isNumber, due: optional(isTime) },
    about: "erasure",
    agrees: (facts) => isCompleteAsStated(facts) && (facts.due !== null || facts.held === 0),
  },
  listed: {
    facts: { receipt: isUuid, list: among(...LISTS), part: isPositive, parts: isPositive, commitments: isPartOfList },
    agrees: ({ part, parts }) => part <= parts && parts <= MOST_PARTS,
  },
  erasure_requested: { facts: { due: isTime }, about: "subject" },
  erasure_cancelled: { facts: { requested: isNumber }, about: "subject" },
  key_added: {
    facts: { keyid: isSha256Hex, key: isPublicKey, algorithm: among("ed25519", "ecdsa-p256"), use: isUse },
    about: "key",
  },
  key_revoked: {
    facts: { keyid: isSha256Hex, use: isUse, reason: among("rotated", "lost", "compromised") },
    about: "key",
  },
  // A mirror has the copies of one memory, or of all where `of` is null.
  mirror_added: {
    facts: { system: among("chroma", "pgvector", "lancedb", "qdrant"), of: optional(isUuid) },
    about: "mirror",
  },
  mirror_checked: { facts: { findings: isFindings }, about: "mirror" },
  mirror_removed: { facts: { pending: isNumber }, about: "mirror" },
};

export function parseEvent({ type, subjects, predicate }) {
  const fields = ["event", "memory", "time", "request", "facts"];
  if (type !== EVENT_TYPE || !has(predicate, fields) || !isEvent(predicate, subjects))
    fail("statement-event-invalid", "the statement is not an event of a store");
  if (SUMMARIES.includes(predicate.event) && predicate.facts.memories.length === 0)
    fail("statement-summary-empty", "a summary of an erasure, and of no memory");
  return { ...predicate, subject: subjects[0] };
}

function isEvent({ event, memory, time: when, request, facts }, subjects) {
  if (typeof event !== "string" || !Object.hasOwn(SHAPES, event)) return false;
  // What is about a subject or a key is about no memory.
  const { facts: known, about = "state", agrees = () => true } = SHAPES[event];
  return (
    (about === "state" ? isUuid(memory) : memory === null) &&
    isTime(when) &&
    holds(() => requested(request)) &&
    has(facts, Object.keys(known)) &&
    Object.entries(known).every(([name, isValid]) => isValid(facts[name])) &&
    subjects.length === 1 &&
    subjects[0].name === about &&
    agrees(facts)
  );
}

const has = (value, names) =>
  isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));

function holds(check) {
  try {
    check();
    return true;
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    return false;
  }
}

function isPartOfList(value) {
  const fits = Array.isArray(value) && value.length > 0 && value.length <= MAX_LISTED;
  return fits && value.every(isSha256Hex) && ascends(value);
}

function isPublicKey(value) {
  const bytes = typeof value === "string" ? fromBase64(value) : null;
  return bytes !== null && bytes.length > 0 && bytes.length <= MAX_KEY;
}

function isSummary(value) {
  if (!Array.isArray(value) || !value.every(isPart)) return false;
  return new Set(value.map(({ memory }) => memory)).size === value.length;
}

function isCompleteAsStated({ memories, complete, held = 0 }) {
  return complete === !(held > 0 || memories.some(({ outcome }) => ["refused", "failed"].includes(outcome)));
}

// What was found of the entries of each erasure, in order of the leaves of these.
function isFindings(value) {
  if (!Array.isArray(value) || value.length === 0 || value.length > MOST_FINDINGS) return false;
  return value.every(isFinding) && value.every(({ leaf }, at) => at === 0 || value[at - 1].leaf < leaf);
}

// As many entries were found to be something as were erased.
function isFinding(part) {
  if (!has(part, ["leaf", "entries", ...FOUND]) || !Object.values(part).every(isNumber)) return false;
  return part.entries !== 0 && part.entries === FOUND.reduce((sum, word) => sum + part[word], 0);
}

// Entries went if and only if a deletion says so, at its leaf.
function isPart(part) {
  if (!has(part, ["memory", "outcome", "leaf", "entries"])) return false;
  const { memory, outcome, leaf, entries } = part;
  return (
    isUuid(memory) &&
    [...ERASED, ...KEPT].includes(outcome) &&
    (leaf === null || isNumber(leaf)) &&
    isNumber(entries) &&
    (ERASED.includes(outcome) ? leaf !== null && entries !== 0 : entries === 0)
  );
}
