// Legal holds as the ledger tells of them: placed, released, and what they forbid.

export class HoldRegister {
  constructor() {
    this.placed = new Map();
    // Numbers of holds in force, by memory, and by the entry that they are on.
    this.inForce = new Map();
    this.onEntries = new Map();
    // Memories that were restored, and of which the holds were not looked at since.
    this.restored = new Set();
  }

  get count() {
    return [...this.inForce.values()].reduce((total, numbers) => total + numbers.size, 0);
  }

  // The memories with a hold in force.
  get memories() {
    return [...this.inForce].filter(([, numbers]) => numbers.size > 0).map(([memory]) => memory);
  }

  place(place, { memory, facts: { hold: number, entry } }, { table }) {
    const before = this.placed.get(number);
    if (before) place.contradicts("ledger-hold-repeated", `hold ${number} was placed before, at leaf ${before.leaf}`);
    if (entry !== null && !table.now.has(entry))
      place.contradicts("ledger-hold-entry-unknown", `hold ${number} is on ${entry}, which is not there`);
    // With the last edit of the memory when it was placed.
    this.placed.set(number, { memory, entry, leaf: place.leaf, edit: table.edit, released: null });
    add(this.inForce, memory, number);
    if (entry !== null) add(this.onEntries, entry, number);
  }

  release(place, { memory, facts: { hold: number, cause } }, history) {
    const hold = this.placed.get(number);
    if (!hold) place.contradicts("ledger-hold-unknown", `hold ${number} is released, and was never placed`);
    if (hold.memory !== memory)
      place.contradicts("ledger-hold-memory", `hold ${number} is released, and is one of memory ${hold.memory}`);
    if (hold.released !== null)
      place.contradicts("ledger-hold-released", `hold ${number} was released before, at leaf ${hold.released}`);
    if (cause === "lost_in_restore" && !history.mayBeOfBackupFrom(hold.edit)) {
      place.contradicts(
        "ledger-hold-not-lost",
        `hold ${number} is said to be lost in a restore, and since edit ${hold.edit}, when it was placed, ` +
          "the memory was edited and not restored",
      );
    }
    this.end(number, place.leaf);
  }

  // Whether one of these holds, which were placed, is not released.
  anyInForce(numbers) {
    return numbers.some((number) => this.placed.get(number).released === null);
  }

  // Ends the holds of a memory that goes; one that names its entries can have none.
  drop(place, { memory, facts }) {
    const numbers = [...(this.inForce.get(memory) ?? [])];
    if (numbers.length && facts.entries !== null)
      place.contradicts("ledger-hold-broken", `dropped, although hold ${Math.min(...numbers)} is in force`);
    for (const number of numbers) this.end(number, place.leaf);
  }

  // What a restoration brought back is erased again whatever is held; the hold has to be released then.
  checkReceipt(place, receipt, history) {
    const { back } = history;
    if (receipt.action === "restoration") this.restored.add(receipt.memory);
    else if (back.size === 0 && receipt.action !== "expiry") this.checkEntries(place, history);
    if (receipt.action === "deletion" || receipt.pruning?.mode === "forget") {
      for (const name of receipt.applied.commitments) {
        if (!this.onEntries.has(name) || back.has(name)) continue;
        const number = Math.min(...this.onEntries.get(name));
        place.contradicts("ledger-hold-broken", `takes ${name}, although hold ${number} is on it`);
      }
    }
  }

  // The entry of a hold in force is there; only a restoration can have taken it.
  checkEntries(place, { table }) {
    if (!this.restored.delete(place.memory)) return;
    for (const number of [...(this.inForce.get(place.memory) ?? [])].sort((one, other) => one - other)) {
      const { entry } = this.placed.get(number);
      if (entry !== null && !table.now.has(entry))
        place.contradicts("ledger-hold-left", `hold ${number} is in force, and ${entry} went in a restoration`);
    }
  }

  end(number, leaf) {
    const hold = this.placed.get(number);
    hold.released = leaf;
    this.inForce.get(hold.memory).delete(number);
    if (hold.entry === null) return;
    const numbers = this.onEntries.get(hold.entry);
    numbers.delete(number);
    if (numbers.size === 0) this.onEntries.delete(hold.entry);
  }
}

function add(map, key, value) {
  if (!map.has(key)) map.set(key, new Set());
  map.get(key).add(value);
}
