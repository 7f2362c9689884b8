// Mirrors: systems that have copies, and what was found there of what was erased.

import { FOUND } from "../event.js";

export class MirrorRegister {
  constructor() {
    // Counts of copies by what was found of them.
    this.found = Object.fromEntries(FOUND.map((word) => [word, 0]));
    this.givenUp = 0;
    // By the commitment to the address: the memory that is copied (null for all), since which leaf, what is still owed.
    this.mirrors = new Map();
  }

  get attached() {
    return [...this.mirrors.values()].filter(({ removed }) => removed === null);
  }

  // How many erasures mirrors have not followed, each counted once for each mirror.
  get pending() {
    return this.attached.reduce((sum, { owed }) => sum + owed.size, 0);
  }

  // The salt of the commitment is random.
  add(place, { subject, facts }) {
    const known = this.mirrors.get(subject.sha256);
    if (known) place.contradicts("ledger-mirror-repeated", `the mirror was added at leaf ${known.leaf} before`);
    const mirror = { memory: facts.of, leaf: place.leaf, owed: new Map(), found: new Map(), removed: null };
    this.mirrors.set(subject.sha256, mirror);
  }

  // Entries of a memory went at a leaf: every mirror of them is to follow.
  erase(leaf, memory, entries) {
    if (entries === 0) return;
    for (const mirror of this.attached) if ([null, memory].includes(mirror.memory)) mirror.owed.set(leaf, entries);
  }

  // What was found is about erasures that the mirror had to follow, about each once.
  check(place, event) {
    const mirror = this.named(place, event);
    for (const { leaf, entries, ...counts } of event.facts.findings) {
      if (mirror.found.has(leaf)) {
        const by = mirror.found.get(leaf);
        place.contradicts("ledger-finding-repeated", `leaf ${by} said what was found of leaf ${leaf}`);
      }
      if (!mirror.owed.has(leaf)) {
        place.contradicts(
          "ledger-finding-unfounded",
          `it says what was found of leaf ${leaf}, which erased nothing that the mirror had to follow`,
        );
      }
      if (mirror.owed.get(leaf) !== entries) {
        place.contradicts(
          "ledger-finding-entries",
          `it counts ${entries} entries of leaf ${leaf}, which erased ${mirror.owed.get(leaf)}`,
        );
      }
      mirror.owed.delete(leaf);
      mirror.found.set(leaf, place.leaf);
      for (const word of FOUND) this.found[word] += counts[word];
    }
  }

  // The erasures that it did not follow are counted.
  remove(place, event) {
    const mirror = this.named(place, event);
    if (event.facts.pending !== mirror.owed.size) {
      place.contradicts(
        "ledger-mirror-pending",
        `it gives up ${event.facts.pending} erasures; the mirror has not followed ${mirror.owed.size}`,
      );
    }
    mirror.removed = place.leaf;
    this.givenUp += mirror.owed.size;
  }

  named(place, { event, subject }) {
    const mirror = this.mirrors.get(subject.sha256);
    if (!mirror) place.contradicts("ledger-mirror-unknown", `${event}, and the mirror was never added`);
    if (mirror.removed !== null)
      place.contradicts("ledger-mirror-removed", `the mirror was removed at leaf ${mirror.removed}`);
    return mirror;
  }
}
