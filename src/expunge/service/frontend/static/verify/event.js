// Events of a store: what happened that is no edit of one memory. Mirrors docs/formats/store.md, "Ledger".

import { isObject } from "./canonical.js";
import { fail, VerificationError } from "./failure.js";
import { time } from "./fields.js";

export const EVENT_TYPE = "urn:expunge:store-event:v1";
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const FACTS = {
  dropped: ["live", "pruned"],
  held: ["hold"],
  released: ["hold"],
  subject_erased: ["memories"],
};
// Outcomes of a subject's deletion in one memory: those that erase, and those that leave everything.
const ERASED = ["certified_zero", "decrement"];
const KEPT = ["noop", "refused", "failed"];

export function parseEvent({ type, subjects, predicate }) {
  if (type !== EVENT_TYPE || !has(predicate, ["event", "memory", "time", "facts"]) || !isEvent(predicate, subjects))
    fail("statement-event-invalid", "the statement is not an event of a store");
  return predicate;
}

function isEvent({ event, memory, time: when, facts }, subjects) {
  if (typeof event !== "string" || !Object.hasOwn(FACTS, event)) return false;
  const summary = event === "subject_erased";
  return (
    (summary ? memory === null : isUuid(memory)) &&
    isTime(when) &&
    has(facts, FACTS[event]) &&
    subjects.length === 1 &&
    subjects[0].name === (summary ? "subject" : "state") &&
    (summary ? isSummary(facts.memories) : FACTS[event].every((name) => isNumber(facts[name])))
  );
}

const has = (value, names) =>
  isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));

const isUuid = (value) => typeof value === "string" && UUID.test(value);

const isNumber = (value) => Number.isSafeInteger(value) && value >= 0;

function isTime(value) {
  try {
    time(value);
    return true;
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    return false;
  }
}

const isSummary = (value) => Array.isArray(value) && value.every(isPart);

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
