// One memory as its receipts tell of it: what it holds, what was erased, and whether each receipt follows from those
// before.

import { sha256, toHex, toUtf8 } from "../encoding.js";
import { fewestLive, reachesOne } from "../receipt.js";
import { checkCertificates } from "./certificates.js";
import { emptyState } from "./empty_state.js";
import { EntryTable } from "./entry_table.js";
import { sameSizes, sizesText } from "./place.js";

const STANDING = ["refused", "noop", "expired"];
// Outcomes after which the cap, and the size that it was set for, may be another.
const NEW_CAP = ["rebuilt", "refitted", "emptied", "restored"];
// Outcomes after which the width may be another.
const NEW_WIDTH = ["rebuilt", "restored"];

const isStanding = ({ outcome }) => STANDING.includes(outcome);
const sameCap = (one, other) => one.cap === other.cap && one.initial === other.initial;
const sameProblem = (one, other) =>
  sameCap(one, other) && one.sigma === other.sigma && one.dimension === other.dimension;
const problemText = ({ cap, sigma, dimension, initial }) =>
  `cap ${cap}, width ${sigma}, dimension ${dimension}, set for ${initial}`;

// What is known of entries and states across all memories.
export class Commitments {
  constructor() {
    this.births = new Map();
    this.hashes = new Map();
    // The memory that was in a state with entries, by its digest.
    this.states = new Map();
    this.dropped = new Map();
  }
}

export class MemoryHistory {
  constructor(known) {
    this.known = known;
    this.table = new EntryTable(known.hashes);
    this.last = null;
    // The leaf of the last receipt or of the last part of its lists.
    this.lastLeaf = -1;
    // The leaf of the last receipt that erased or forgot entries, or went back to an earlier edit.
    this.lastLoss = -1;
    this.edits = [];
    this.erased = new Set();
    this.forgotten = new Set();
    // What was erased, or forgotten, and is back since a restoration.
    this.back = new Set();
    // The edit of the backup that it was restored from, until it is edited otherwise than to erase that again.
    this.backup = null;
    // What each digest stands for, and the digest of each: a set of live entries, the cap and the width.
    this.states = new Map();
    this.digests = new Map();
  }

  // Checks that a receipt, its lists complete, continues the history, and takes it up.
  async follow(place, receipt) {
    if (this.last === null) {
      if (receipt.action !== "creation")
        place.contradicts("ledger-creation-missing", `a ${receipt.action}, before any creation`);
      checkEdit(place, receipt, 0);
    } else this.checkSuccession(place, this.last, receipt);
    const erasesAgain = this.back.size > 0;
    this.checkErasedAgain(place, receipt);
    if (!isStanding(receipt)) {
      this.table.beginEdit();
      if (!erasesAgain) this.backup = null;
    }
    await OUTCOME_RULES[receipt.outcome](this, place, receipt);
    checkZeros(place, receipt);
    if (!isStanding(receipt)) {
      await this.checkLeft(place, receipt);
      this.edits.push({ state: receipt.after, sizes: receipt.entries.after, problem: receipt.problem });
      if (["deletion", "restoration"].includes(receipt.action) || forgets(receipt))
        this.lastLoss = place.leaf;
    }
    this.last = receipt;
  }

  // Whether the memory can be as a backup from this edit, or from an earlier one, had it, but for erasures.
  mayBeOfBackupFrom(edit) {
    return this.table.edit === edit || (this.backup !== null && this.backup <= edit);
  }

  // Something erased may not be back at the end of the ledger, or of the memory's next edit.
  checkFinished(place) {
    if (this.back.size === 0) return;
    const again = [...this.back].filter((name) => this.erased.has(name)).sort();
    const [first] = again.length ? again : [...this.back].sort();
    place.contradicts(
      again.length ? "ledger-erasure-undone" : "ledger-forgetting-undone",
      `${this.back.size} erasures were not applied again after a restoration: ${first} is back`,
    );
  }

  checkSuccession(place, last, receipt) {
    if (receipt.action === "creation") place.contradicts("ledger-creation-repeated", "the memory was created before");
    if (receipt.before !== last.after) {
      place.contradicts("ledger-state-broken", `starts from state ${receipt.before}; the last one is ${last.after}`);
    }
    if (!sameSizes(receipt.entries.before, last.entries.after)) {
      const [from, left] = [receipt.entries.before, last.entries.after].map(sizesText);
      place.contradicts("ledger-entries-broken", `starts from ${from}, after ${left}`);
    }
    checkEdit(place, receipt, last.edit + (isStanding(receipt) ? 0 : 1));
    const [now, then] = [receipt.problem, last.problem];
    const capStands = sameCap(now, then) || NEW_CAP.includes(receipt.outcome);
    const widthStands = now.sigma === then.sigma || NEW_WIDTH.includes(receipt.outcome);
    if (!capStands || !widthStands || now.dimension !== then.dimension)
      place.contradicts("ledger-problem-changed", `${problemText(now)}, after ${problemText(then)}`);
  }

  // What a restoration brought back is erased by the next receipt, or goes with another restoration.
  checkErasedAgain(place, receipt) {
    if (receipt.action === "restoration" || this.back.size === 0) return;
    if (receipt.action === "deletion" && !isStanding(receipt))
      receipt.applied.commitments.forEach((name) => this.back.delete(name));
    this.checkFinished(place);
  }

  // The sizes and the state that an edit left are those of the entries that are there.
  async checkLeft(place, receipt) {
    const { after } = receipt.entries;
    const { table } = this;
    if (!sameSizes(table.sizes, after)) {
      const there = sizesText(table.sizes);
      place.contradicts("ledger-sizes-mismatch", `states ${sizesText(after)}; after what it lists there are ${there}`);
    }
    if (table.archived && (after.live === 0 || ["rebuilt", "refitted"].includes(receipt.outcome)))
      place.contradicts("ledger-archive-left", `${receipt.outcome}, and ${table.archived} entries are still archived`);
    checkInitialSize(place, receipt, this.last);
    await this.checkState(place, receipt);
  }

  // The digest of a state is that of the live entries, and of no others.
  async checkState(place, receipt) {
    const { known, table, states, digests } = this;
    const { cap, sigma } = receipt.problem;
    const { live } = receipt.entries.after;
    const empty = await emptyState(sigma);
    if ((receipt.after === empty) !== (live === 0)) {
      place.contradicts(
        "ledger-state-empty",
        `${live} live entries in state ${receipt.after}; the state of none is ${empty} at this width`,
      );
    }
    const fitted = `${table.liveSet} ${cap} ${sigma}`;
    if ((states.get(receipt.after) ?? fitted) !== fitted)
      place.contradicts("ledger-state-mismatch", `state ${receipt.after} was there before, with other live entries`);
    const digest = digests.get(fitted) ?? receipt.after;
    if (digest !== receipt.after) {
      place.contradicts(
        "ledger-state-mismatch",
        `state ${receipt.after}; these live entries were there before, in state ${digest}`,
      );
    }
    states.set(receipt.after, fitted);
    digests.set(fitted, digest);
    if (live === 0) return;
    if (!known.states.has(receipt.after)) known.states.set(receipt.after, receipt.memory);
    const other = known.states.get(receipt.after);
    if (other === receipt.memory) return;
    if (known.dropped.has(other)) {
      const at = known.dropped.get(other);
      place.contradicts("ledger-drop-undone", `in the state of memory ${other}, which was dropped at leaf ${at}`);
    }
    place.contradicts("ledger-state-shared", `in a state that memory ${other} is or was in`);
  }

  async admit(place, receipt) {
    const { births, hashes, dropped } = this.known;
    const names = receipt.applied.commitments;
    const hashed = await Promise.all(names.map((name) => sha256(toUtf8(name))));
    names.forEach((name, at) => hashes.set(name, BigInt(`0x${toHex(hashed[at])}`)));
    for (const name of names) {
      const birth = births.get(name);
      if (!birth) {
        births.set(name, { memory: receipt.memory, leaf: place.leaf, seconds: place.seconds });
        this.table.admit(name);
        continue;
      }
      if (birth.memory === receipt.memory && this.table.now.has(name))
        place.contradicts("ledger-entry-repeated", `${name} is there since leaf ${birth.leaf}`);
      if (birth.memory === receipt.memory)
        place.contradicts("ledger-entry-reused", `${name} was there before, since leaf ${birth.leaf}`);
      if (dropped.has(birth.memory)) {
        const at = dropped.get(birth.memory);
        place.contradicts("ledger-drop-undone", `${name} went with memory ${birth.memory}, dropped at leaf ${at}`);
      }
      place.contradicts("ledger-entry-shared", `${name} was admitted to memory ${birth.memory} at leaf ${birth.leaf}`);
    }
  }

  // Erases what a deletion names; → the forgettings whose certificates rest on it.
  erase(place, receipt) {
    const { now } = this.table;
    const names = receipt.applied.commitments;
    for (const name of names) {
      if (now.has(name)) continue;
      const birth = this.known.births.get(name);
      if (this.erased.has(name)) place.contradicts("ledger-erasure-repeated", `${name} was erased before`);
      if (birth && birth.memory !== receipt.memory)
        place.contradicts("ledger-entry-elsewhere", `erases ${name}, which was admitted to memory ${birth.memory}`);
      const lost = birth ? "a restoration has lost" : "was never admitted";
      place.contradicts("ledger-deletion-unknown", `erases ${name}, which ${lost}`);
    }
    const over = this.table.forgettingsOn(names.map((name) => now.get(name)));
    for (const name of names) {
      this.table.put(name, null);
      this.erased.add(name);
    }
    return over;
  }

  reactivate(place, receipt) {
    for (const name of receipt.reactivated.commitments) {
      const status = this.table.now.get(name)?.status;
      if (status === "forgotten")
        place.contradicts("ledger-forgotten-returned", `${name} was forgotten, and comes back`);
      if (status !== "archived") {
        const is = status ?? "not there";
        place.contradicts("ledger-reactivation-unknown", `${name} comes back from the archive, and is ${is}`);
      }
      this.table.reactivate(name);
    }
  }
}

// What each outcome does to a memory; every outcome of the format has its rule.
const OUTCOME_RULES = {
  created: (history, place, receipt) => history.admit(place, receipt),
  admitted,
  certified_zero: deleted,
  decrement: deleted,
  refitted,
  emptied: deleted,
  refused: () => {},
  noop,
  pruned,
  rebuilt,
  expired: noticed,
  restored,
};

async function admitted(history, place, receipt) {
  history.reactivate(place, receipt);
  await history.admit(place, receipt);
  checkCertificates(place, history.table, receipt, []);
}

function deleted(history, place, receipt) {
  const { table } = history;
  const [before, live] = [table.liveSet, table.sizes.live];
  const over = history.erase(place, receipt);
  const gone = live - table.sizes.live;
  if (receipt.outcome === "decrement" && gone === 0)
    place.contradicts("ledger-outcome-unfounded", "decrement, and no entry that it erases was live");
  const [zeros, back] = [mostZeros(receipt.problem.cap, live), receipt.reactivated.count];
  if (receipt.outcome === "certified_zero" && (gone > zeros || back > 0)) {
    place.contradicts(
      "ledger-outcome-unfounded",
      `certified_zero of ${gone} live entries, where ${zeros} can have no weight; ${back} come back, where none can`,
    );
  }
  history.reactivate(place, receipt);
  if (table.liveSet === before && receipt.after !== receipt.before)
    place.contradicts("ledger-state-mismatch", "the live entries stay, and the state does not");
  checkCertificates(place, table, receipt, over);
}

function refitted(history, place, receipt) {
  const before = history.last.problem.cap;
  history.erase(place, receipt);
  history.reactivate(place, receipt);
  const due = doubled(before, receipt.entries.after.live);
  if (receipt.problem.cap !== due || due === before) {
    place.contradicts(
      "ledger-cap-rule",
      `refitted at cap ${receipt.problem.cap}; the rule makes it ${due}, ` +
        `for ${receipt.entries.after.live} entries after cap ${before}`,
    );
  }
  checkCertificates(place, history.table, receipt, [...history.table.open]);
}

function pruned(history, place, receipt) {
  const { table } = history;
  const names = receipt.applied.commitments;
  for (const name of names) {
    const status = table.now.get(name)?.status ?? "not there";
    if (status !== "live") place.contradicts("ledger-pruning-not-live", `prunes ${name}, which is ${status}`);
  }
  const forget = receipt.pruning.mode === "forget";
  const over = forget ? table.forgettingsOn(names.map((name) => table.now.get(name))) : [];
  table.prune(names, forget);
  if (forget) names.forEach((name) => history.forgotten.add(name));
  checkCertificates(place, table, receipt, over);
}

function rebuilt(history, place, receipt) {
  history.reactivate(place, receipt);
  checkCertificates(place, history.table, receipt, [...history.table.open]);
}

// To rebuild entries always does something.
function noop({ table }, place, { action }) {
  if (action === "rebuild" && table.sizes.live)
    place.contradicts("ledger-outcome-unfounded", "a rebuild of entries that did nothing");
}

// Goes back to an earlier edit; what was erased since is back until it is erased again.
function restored(history, place, receipt) {
  const { table, erased, forgotten } = history;
  // The format has it before the receipt's own edit, so that it is known.
  const edit = receipt.restoredEdit;
  const { state, sizes, problem } = history.edits[edit];
  if (state !== receipt.after || !sameSizes(sizes, receipt.entries.after) || !sameProblem(problem, receipt.problem)) {
    place.contradicts(
      "ledger-restoration-mismatch",
      `restored to edit ${edit}, which left state ${state}, ${sizesText(sizes)} and ${problemText(problem)}`,
    );
  }
  history.backup = edit;
  const touched = table.restore(edit);
  const isBack = (name) =>
    table.now.has(name) &&
    (erased.has(name) || (forgotten.has(name) && table.now.get(name).status !== "forgotten"));
  history.back = new Set([...touched, ...history.back].filter(isBack));
}

// A notice repeats what the receipt just before it ended or expired.
function noticed({ last, lastLeaf }, place, receipt) {
  const same = (one, other) => one.count === other.count && one.commitments.join() === other.commitments.join();
  if (last === null || isStanding(last) || !same(receipt.ended, last.ended) || !same(receipt.expired, last.expired)) {
    place.contradicts(
      "ledger-notice-mismatch",
      "the certificates are not those that the receipt before it ended or expired",
    );
  }
  if (lastLeaf !== place.leaf - 1)
    place.contradicts("ledger-notice-mismatch", `it does not follow its receipt, which ends at leaf ${lastLeaf}`);
}

function checkEdit(place, receipt, due) {
  if (receipt.edit !== due) place.contradicts("ledger-edit-order", `edit ${receipt.edit}; due is ${due}`);
}

// How many of these live entries can have no weight: ⌈1/C⌉ have some, as their weights are at most C and sum to 1.
function mostZeros(cap, live) {
  const most = BigInt(live) - fewestLive(cap);
  return most > 0n ? most : 0n;
}

// A pruning leaves no more zeros unproved than there can be.
function checkZeros(place, { pruning, problem, entries }) {
  const [unproved, most] = [pruning?.unproved ?? 0, mostZeros(problem.cap, entries.after.live)];
  if (unproved > most) {
    place.contradicts(
      "ledger-sizes-mismatch",
      `${unproved} zeros stayed among ${entries.after.live} live entries, and at most ${most} have no weight`,
    );
  }
}

function checkInitialSize(place, { problem, outcome, entries }, last) {
  const allowed = [null, entries.after.live];
  const stays = ["refitted", "emptied"].includes(outcome) || problem.cap === last?.problem.cap;
  if (last !== null && stays) allowed.push(last.problem.initial);
  if (["created", "rebuilt", "refitted", "emptied"].includes(outcome) && !allowed.includes(problem.initial)) {
    place.contradicts(
      "ledger-initial-size",
      `the cap was set for ${problem.initial} entries, and there are ${entries.after.live}`,
    );
  }
}

// The cap, doubled as often as it takes, and no more, until this many entries are enough for it; at most 1.
function doubled(cap, entries) {
  let found = cap;
  while (found < 1 && !reachesOne(entries, found)) found = Math.min(1, 2 * found);
  return found;
}

// Whether a receipt is of a pruning that forgets entries.
export function forgets({ pruning, outcome }) {
  return outcome === "pruned" && pruning.mode === "forget";
}
