// Erasures in several memories, of data subjects and by sweeps: what was asked for, and the receipts that show it.

import { ERASED } from "../event.js";
import { SKEW } from "./clock.js";
import { secondsOf } from "./place.js";

// How many seconds after its request an erasure is due, at most: 366 days.
const LONGEST_DELAY = 366 * 86_400;

export class SubjectErasures {
  constructor() {
    this.complete = 0;
    this.refused = 0;
    this.asked = new Map();
    this.deletions = new Map();
    this.counted = new Map();
    // Memories that refused to erase entries, with the leaf, by the commitments that one erasure alone has.
    this.refusals = new Map();
    // The leaf that first names each subject's commitment.
    this.subjects = new Map();
  }

  // With the time at which the newest of its entries came in, and whether it erases what a restoration brought back.
  addReceipt({ leaf, seconds }, { action, memory, outcome, applied, refusal, request }, newest, erasesAgain) {
    if (action !== "deletion") return;
    const commitments = caseAndActor(request);
    if (outcome === "refused") {
      if (!this.refusals.has(commitments)) this.refusals.set(commitments, new Map());
      this.refusals.get(commitments).set(memory, leaf);
    }
    const [entries, holds] = [applied.count, refusal?.holds ?? []];
    this.deletions.set(leaf, { memory, outcome, entries, seconds, holds, request, erasesAgain, newest });
  }

  // The holds that a refused deletion names.
  forbiddenBy(leaf) {
    return this.deletions.get(leaf)?.holds ?? [];
  }

  request(place, { subject, facts, request }) {
    const due = secondsOf(facts.due);
    const delay = due - place.seconds;
    if (delay < -SKEW || delay > LONGEST_DELAY + SKEW)
      place.contradicts("ledger-erasure-request-due", `due ${delay} s later; at most ${LONGEST_DELAY} s are allowed`);
    this.checkNew(place, subject);
    // `refused` has the memories that its summaries say have entries of the subject, with the leaf of the refusal.
    const refused = new Map();
    this.asked.set(place.leaf, { subject: subject.sha256, request, due, refused, cancelled: null, done: null });
  }

  cancel(place, event) {
    this.open(place, event).cancelled = place.leaf;
  }

  // `mayBeGone` tells whether entries of a memory can have gone since a leaf.
  summarize(place, event, mayBeGone) {
    const { memories, requested, complete } = event.facts;
    const leaves = this.checkParts(place, event);
    if (requested === null) this.checkNew(place, event.subject);
    else {
      const asked = this.open(place, event);
      const early = leaves.find((leaf) => leaf < requested);
      if (early !== undefined) {
        place.contradicts(
          "ledger-summary-early",
          `it counts leaf ${early}, from before its request at leaf ${requested}`,
        );
      }
      const first = Math.min(place.seconds, ...leaves.map((leaf) => this.deletions.get(leaf).seconds));
      if (first < asked.due - SKEW) {
        const early = asked.due - first;
        place.contradicts(
          "ledger-summary-not-due",
          `it carries out the request at leaf ${requested} ${early} s before it is due`,
        );
      }
      this.checkCase(place, event, asked, leaves);
      checkRefused(place, asked.refused, memories, mayBeGone);
      for (const { memory, outcome, leaf } of memories)
        if (outcome === "refused" && leaf !== null) asked.refused.set(memory, leaf);
      if (complete) asked.done = place.leaf;
    }
    const commitments = caseAndActor(event.request);
    if (commitments !== NOBODY) checkRefused(place, this.refusals.get(commitments) ?? [], memories, mayBeGone);
    for (const leaf of leaves) this.counted.set(leaf, place.leaf);
    if (complete) this.complete += 1;
    else this.refused += 1;
  }

  // A summary that is about no subject; what a sweep erased can have ended by its time.
  sumUp(place, event) {
    const leaves = this.checkParts(place, event);
    const deletions = leaves.map((leaf) => this.deletions.get(leaf));
    if (event.facts.due !== null) {
      const due = secondsOf(event.facts.due);
      const early = due - Math.min(place.seconds, ...deletions.map(({ seconds }) => seconds));
      if (early > SKEW)
        place.contradicts("ledger-sweep-not-due", `it erases what had ended by a time ${early} s later than its own`);
      for (const [at, { newest }] of deletions.entries()) {
        if (newest > due + SKEW) {
          place.contradicts(
            "ledger-sweep-too-new",
            `leaf ${leaves[at]} erases what came in ${newest - due} s after it had ended`,
          );
        }
      }
    }
    for (const leaf of leaves) this.counted.set(leaf, place.leaf);
  }

  // The leaves that a summary counts: each receipt is there, says the same, and is counted once.
  checkParts(place, { facts: { memories } }) {
    const leaves = memories.map(({ leaf }) => leaf).filter((leaf) => leaf !== null);
    if (new Set(leaves).size < leaves.length) place.contradicts("ledger-summary-double", "it counts one leaf twice");
    for (const part of memories) this.checkPart(place, part);
    return leaves;
  }

  // How many requests are open, and how many of these are overdue.
  openRequests(now) {
    const open = [...this.asked.values()].filter(({ cancelled, done }) => cancelled === null && done === null);
    return [open.length, open.filter(({ due }) => now !== null && due < now).length];
  }

  checkPart(place, { memory, outcome, leaf, entries }) {
    if (leaf === null) return;
    const found = this.deletions.get(leaf);
    if (!found || outcome === "failed" || found.memory !== memory || found.outcome !== outcome) {
      const there = found ? `${found.outcome} in memory ${found.memory}` : "not a deletion";
      place.contradicts(
        "ledger-summary-mismatch",
        `it counts leaf ${leaf} as ${outcome} in memory ${memory}; that is ${there}`,
      );
    }
    if (ERASED.includes(outcome) && found.entries !== entries) {
      place.contradicts(
        "ledger-summary-entries",
        `it counts ${entries} entries of leaf ${leaf}, which erased ${found.entries}`,
      );
    }
    if (found.erasesAgain) {
      place.contradicts(
        "ledger-summary-unfounded",
        `leaf ${leaf}, which it counts, erases again what a restoration brought back`,
      );
    }
    if (this.counted.has(leaf)) {
      const by = this.counted.get(leaf);
      place.contradicts("ledger-summary-repeated", `leaf ${leaf} is counted by the summary at leaf ${by}`);
    }
  }

  // The commitment to a subject has a salt of its own; only what names its request has it again.
  checkNew(place, { sha256 }) {
    const first = this.subjects.get(sha256);
    if (first !== undefined)
      place.contradicts("ledger-subject-repeated", `the subject of leaf ${first}, and it does not name a request there`);
    this.subjects.set(sha256, place.leaf);
  }

  // What carries out a request has its case and actor, or none where these were erased meanwhile.
  checkCase(place, { request, facts }, asked, leaves) {
    const stated = [[place.leaf, request], ...leaves.map((leaf) => [leaf, this.deletions.get(leaf).request])];
    for (const [leaf, found] of stated) {
      if ([caseAndActor(asked.request), NOBODY].includes(caseAndActor(found))) continue;
      place.contradicts(
        "ledger-summary-case",
        `leaf ${leaf} is of another case or actor than the request at leaf ${facts.requested}`,
      );
    }
  }

  open(place, { subject, facts: { requested: leaf } }) {
    const asked = this.asked.get(leaf);
    const about = `the request at leaf ${leaf}`;
    if (!asked) place.contradicts("ledger-erasure-request-unknown", `leaf ${leaf} is no request for erasure`);
    if (asked.subject !== subject.sha256)
      place.contradicts("ledger-erasure-request-subject", `${about} is about another subject`);
    if (asked.cancelled !== null)
      place.contradicts("ledger-erasure-request-cancelled", `${about} was cancelled at leaf ${asked.cancelled}`);
    if (asked.done !== null)
      place.contradicts("ledger-erasure-request-done", `${about} was carried out at leaf ${asked.done}`);
    return asked;
  }
}

// The commitments to a case and an actor, and those of leaves that have neither.
const caseAndActor = ({ case: reference, actor }) => `${reference} ${actor}`;
const NOBODY = caseAndActor({ case: null, actor: null });

// A memory that refused to erase entries of the subject is in the summary, until they can have gone.
function checkRefused(place, refused, parts, mayBeGone) {
  const stated = new Map(parts.map(({ memory, outcome }) => [memory, outcome]));
  for (const [memory, leaf] of refused) {
    if ((stated.get(memory) ?? "noop") !== "noop" || mayBeGone(memory, leaf)) continue;
    place.contradicts(
      "ledger-summary-unfounded",
      `memory ${memory} refused to erase entries of the subject at leaf ${leaf}, and none can have gone since`,
    );
  }
}
