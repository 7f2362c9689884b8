// Lists that are too long for their receipt, and follow it in parts, in the order in which they are due.

import { fromHex, toHex } from "../encoding.js";
import { TreeRoot } from "../merkle.js";

export class OwedLists {
  constructor(place, request, state, lists) {
    Object.assign(this, { place, request, state, lists });
    this.due = Object.keys(lists).filter((name) => lists[name].root !== null);
    this.found = {};
    this.begin();
  }

  begin() {
    Object.assign(this, { names: [], part: 0, parts: 0, root: new TreeRoot() });
  }

  get owed() {
    return this.due[0] ?? null;
  }

  // Checks that an event is the part that is due; → whether it was the last one.
  async take(place, { facts, memory, subject }) {
    const name = this.owed;
    const wanted = this.lists[name];
    if (this.part === 0) this.parts = facts.parts;
    const isDue =
      facts.receipt === this.request &&
      memory === this.place.memory &&
      subject.sha256 === this.state &&
      facts.list === name &&
      facts.part === this.part + 1 &&
      facts.parts === this.parts;
    if (!isDue) this.mismatch(place, `it is part ${facts.part} of ${facts.list}; due is ${this.part + 1} of ${name}`);
    if (this.names.length && facts.commitments[0] <= this.names.at(-1))
      this.mismatch(place, "the commitments do not ascend from the part before");
    this.names = this.names.concat(facts.commitments);
    this.part += 1;
    for (const digest of facts.commitments) await this.root.add(fromHex(digest));
    const last = this.part === this.parts;
    if (this.names.length > wanted.count || (last && this.names.length !== wanted.count))
      this.mismatch(place, `${this.names.length} entries of ${name}, where ${wanted.count} are counted`);
    if (!last) return false;
    if (toHex(await this.root.digest()) !== wanted.root)
      this.mismatch(place, `the entries of ${name} do not lead to its root`);
    this.found[name] = { commitments: this.names, count: wanted.count, root: null };
    this.due.shift();
    this.begin();
    return this.due.length === 0;
  }

  mismatch(place, text) {
    place.contradicts("ledger-list-mismatch", `${text} (receipt at leaf ${this.place.leaf})`);
  }
}
