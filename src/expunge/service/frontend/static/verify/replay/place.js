// Where in a ledger a statement is, and the error that it contradicts the leaves before it.
// This folder mirrors docs/formats/ledger-replay.md, rule by rule, in the order of its tables.

import { fail } from "../failure.js";

export class Place {
  constructor(leaf, memory, seconds = 0) {
    Object.assign(this, { leaf, memory, seconds });
  }

  contradicts(code, text) {
    const where = this.memory === null ? `leaf ${this.leaf}` : `leaf ${this.leaf}, memory ${this.memory}`;
    fail(code, `${where}: ${text}`);
  }
}

export const secondsOf = (time) => Date.parse(time) / 1000;

export const sameSizes = (one, other) => one.live === other.live && one.pruned === other.pruned;

export const sizesText = ({ live, pruned }) => `${live} live and ${pruned} pruned`;
