// The entries of one memory as its receipts have left them, after any edit of its history.
// An entry: { status, since, lived, anchor, valid }. `lived` has the stretches of edits, both ends included, over which
// it was live before; `anchor` is the edit that forgot it, while its certificate lasts; `valid` whether that has not expired.

const MODULUS = 1n << 256n;
const make = (status, since, lived = [], anchor = null, valid = true) => ({ status, since, lived, anchor, valid });

// The first place in ascending numbers with something that is at least `number`.
function lowerBound(numbers, number) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class EntryTable {
  // `hashes` has a number for every commitment, which nobody chooses.
  constructor(hashes) {
    this.hashes = hashes;
    this.now = new Map();
    // By edit: the entries that it forgot, while their certificates last.
    this.forgettings = new Map();
    this.open = [];
    this.replaced = [];
    this.counts = { live: 0, archived: 0, forgotten: 0 };
    this.certificates = 0;
    this.liveSum = 0n;
  }

  get sizes() {
    return { live: this.counts.live, pruned: this.counts.archived + this.counts.forgotten };
  }

  get archived() {
    return this.counts.archived;
  }

  // A fingerprint of the set of live entries.
  get liveSet() {
    return `${this.counts.live} ${this.liveSum}`;
  }

  get edit() {
    return this.replaced.length - 1;
  }

  beginEdit() {
    this.replaced.push({ entries: [], forgettings: [] });
  }

  put(name, entry) {
    this.replaced.at(-1).entries.push([name, this.swap(name, entry)]);
  }

  admit(name) {
    this.put(name, make("live", this.edit));
  }

  prune(names, forget) {
    for (const name of names) {
      const old = this.now.get(name);
      const lived = forget ? [] : [...old.lived, [old.since, this.edit - 1]];
      this.put(name, make(forget ? "forgotten" : "archived", this.edit, lived, forget ? this.edit : null));
    }
    if (forget) this.putForgetting(this.edit, names);
  }

  reactivate(name) {
    this.put(name, make("live", this.edit, this.now.get(name).lived));
  }

  stateValidity(name, valid) {
    this.put(name, { ...this.now.get(name), valid });
  }

  // The forgettings whose certificates rest on one of these entries, which are live or archived or were.
  forgettingsOn(entries) {
    const found = new Set();
    const add = (from, to) => this.open.slice(from, to).forEach((edit) => found.add(edit));
    for (const { status, since, lived } of entries) {
      if (status === "forgotten") continue;
      if (status === "live") add(lowerBound(this.open, since));
      for (const [first, last] of lived) add(lowerBound(this.open, first), lowerBound(this.open, last + 1));
    }
    return found;
  }

  // Ends the certificates of these forgettings; → the entries that had one.
  end(forgettings) {
    const ended = new Set();
    for (const edit of forgettings) {
      for (const name of this.forgettings.get(edit)) {
        const old = this.now.get(name);
        if (old?.anchor !== edit) continue;
        this.put(name, make("forgotten", old.since));
        ended.add(name);
      }
      this.putForgetting(edit, null);
    }
    return ended;
  }

  // Makes the edit that was begun go back to what an earlier one left; → the entries that it touched.
  restore(edit) {
    const [touched, forgettings] = [new Map(), new Map()];
    for (let number = this.edit; number > edit; number -= 1) {
      for (const [name, entry] of this.replaced[number].entries.toReversed()) {
        const replaced = this.swap(name, entry);
        if (!touched.has(name)) touched.set(name, replaced);
      }
      for (const [forgetting, members] of this.replaced[number].forgettings.toReversed()) {
        const taken = this.swapForgetting(forgetting, members);
        if (!forgettings.has(forgetting)) forgettings.set(forgetting, taken);
      }
    }
    this.replaced[this.edit] = { entries: [...touched], forgettings: [...forgettings] };
    return new Set(touched.keys());
  }

  swap(name, entry) {
    const old = this.now.get(name) ?? null;
    for (const [each, sign] of [
      [old, -1],
      [entry, 1],
    ]) {
      if (each === null) continue;
      this.counts[each.status] += sign;
      this.certificates += each.anchor === null ? 0 : sign;
      if (each.status === "live") this.liveSum = (this.liveSum + BigInt(sign) * this.hashes.get(name) + MODULUS) % MODULUS;
    }
    if (entry === null) this.now.delete(name);
    else this.now.set(name, entry);
    return old;
  }

  putForgetting(edit, members) {
    this.replaced.at(-1).forgettings.push([edit, this.swapForgetting(edit, members)]);
  }

  swapForgetting(edit, members) {
    const old = this.forgettings.get(edit) ?? null;
    if (old !== null) {
      this.open.splice(lowerBound(this.open, edit), 1);
      this.forgettings.delete(edit);
    }
    if (members !== null) {
      this.open.splice(lowerBound(this.open, edit), 0, edit);
      this.forgettings.set(edit, members);
    }
    return old;
  }
}
