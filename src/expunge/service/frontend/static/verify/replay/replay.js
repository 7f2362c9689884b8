// The whole ledger, leaf by leaf: what concerns every leaf, and which rule takes it.

import { toHex } from "../encoding.js";
import { ERASED, LISTS } from "../event.js";
import { LedgerClock, SKEW } from "./clock.js";
import { HoldRegister } from "./hold_register.js";
import { Commitments, forgets, MemoryHistory } from "./memory_history.js";
import { MirrorRegister } from "./mirror_register.js";
import { OwedLists } from "./owed_lists.js";
import { checkRefusal } from "./refusals.js";
import { Place, sameSizes, secondsOf, sizesText } from "./place.js";
import { SubjectErasures } from "./subject_erasures.js";

// Takes every leaf in order; fails where one contradicts those before it.
export class LedgerReplay {
  // Seconds since 1970, or null; sizes of heads, and when somebody is known to have seen each.
  constructor(now, seen) {
    this.now = now;
    this.clock = new LedgerClock(now, seen);
    this.known = new Commitments();
    this.histories = new Map();
    this.holds = new HoldRegister();
    this.erasures = new SubjectErasures();
    this.mirrors = new MirrorRegister();
    this.leaves = new Map();
    this.requests = new Map();
    // The leaf that owes lists, what it says, and the lists.
    this.owing = null;
    // The memory that the last leaf restored.
    this.restored = null;
  }

  // Takes the leaf at an index: its hash, and the receipt or the event that it states.
  async add(index, leaf, stated) {
    const place = new Place(index, stated.memory, secondsOf(stated.time));
    this.checkNew(place, toHex(leaf), stated);
    if (this.owing !== null && stated.event !== "listed") this.missingList(place, "it");
    this.checkErasedAgain(place, stated);
    this.clock.check(place);
    if (stated.event === undefined) this.checkBirths(place, stated);
    this.clock.advance(place);
    if (stated.event === undefined) await this.takeReceipt(place, stated);
    else await this.takeEvent(place, stated);
  }

  // Checks that nothing is owed at the end; → what there is.
  finish(size) {
    if (this.owing !== null) this.missingList(new Place(size, null), "the end of the ledger");
    const { dropped, births } = this.known;
    const there = [...this.histories].filter(([memory]) => !dropped.has(memory));
    for (const [memory, history] of there) {
      const at = new Place(history.lastLeaf, memory);
      history.checkFinished(at);
      this.holds.checkEntries(at, history);
    }
    const tables = there.map(([, { table }]) => table);
    const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
    const [requestsOpen, requestsOverdue] = this.erasures.openRequests(this.now);
    const live = tables.map((table) => table.sizes.live);
    const archived = sum(tables.map((table) => table.archived));
    return {
      memories: tables.length,
      memoriesEmpty: live.filter((number) => number === 0).length,
      memoriesDropped: dropped.size,
      entriesAdmitted: births.size,
      entriesErased: sum([...this.histories.values()].map(({ erased }) => erased.size)),
      entriesLive: sum(live),
      entriesArchived: archived,
      entriesForgotten: sum(tables.map((table) => table.sizes.pruned)) - archived,
      erasuresComplete: this.erasures.complete,
      erasuresIncomplete: this.erasures.refused,
      holdsInForce: this.holds.count,
      requestsOpen,
      requestsOverdue,
      mirrors: this.mirrors.attached.length,
      mirrorsPending: this.mirrors.pending,
      mirrorsGivenUp: this.mirrors.givenUp,
      copiesAbsent: this.mirrors.found.absent,
      copiesInFiles: this.mirrors.found.in_files,
      copiesNotCheckable: this.mirrors.found.not_checkable,
    };
  }

  // A leaf, and the id of its request, occur once.
  checkNew(place, leaf, { request }) {
    if (this.leaves.has(leaf)) place.contradicts("ledger-leaf-repeated", `the same bytes as leaf ${this.leaves.get(leaf)}`);
    this.leaves.set(leaf, place.leaf);
    const first = this.requests.get(request.id);
    if (first !== undefined) place.contradicts("ledger-request-repeated", `the request id of leaf ${first}`);
    this.requests.set(request.id, place.leaf);
  }

  // Between a restoration that brings erased entries back and their erasure comes nothing else.
  checkErasedAgain(place, stated) {
    const memory = this.restored;
    this.restored = null;
    // Which receipts of the memory itself may come, its history knows.
    if (memory === null || (stated.memory === memory && [undefined, "dropped"].includes(stated.event))) return;
    const history = this.histories.get(memory);
    history.checkFinished(new Place(history.lastLeaf, memory));
  }

  // Nothing is deleted before it came in.
  checkBirths(place, { action, applied }) {
    if (action !== "deletion") return;
    for (const name of applied.commitments) {
      const birth = this.known.births.get(name);
      if (birth && place.seconds < birth.seconds - SKEW) {
        place.contradicts(
          "ledger-deletion-before-creation",
          `erases ${name} ${birth.seconds - place.seconds} s before it came in, at leaf ${birth.leaf}`,
        );
      }
    }
  }

  async takeReceipt(place, receipt) {
    this.checkAlive(place, receipt.memory);
    const names = LISTS.filter((name) => name !== "entries");
    const lists = Object.fromEntries(names.map((name) => [name, receipt[name]]));
    const owed = new OwedLists(place, receipt.request.id, receipt.after, lists);
    if (owed.owed !== null) this.owing = { place, stated: receipt, owed };
    else await this.follow(place, receipt, place.leaf);
  }

  async takeEvent(place, event) {
    if (event.event === "listed") return this.takeList(place, event);
    const listed = event.facts.entries ?? null;
    if (listed !== null && listed.root !== null) {
      const owed = new OwedLists(place, event.request.id, event.subject.sha256, { entries: listed });
      this.checkEvent(place, event);
      this.owing = { place, stated: event, owed };
      return undefined;
    }
    return EVENT_RULES[event.event](this, place, event);
  }

  // Takes up a receipt whose lists are complete.
  async follow(place, receipt, lastLeaf) {
    if (!this.histories.has(receipt.memory)) this.histories.set(receipt.memory, new MemoryHistory(this.known));
    const history = this.histories.get(receipt.memory);
    const erasesAgain = history.back.size > 0;
    this.holds.checkReceipt(place, receipt, history);
    checkRefusal(place, receipt, history, this.holds);
    await history.follow(place, receipt);
    history.lastLeaf = lastLeaf;
    const removed = receipt.action === "deletion" ? receipt.applied.commitments : [];
    const newest = removed.reduce((latest, name) => Math.max(latest, this.known.births.get(name)?.seconds ?? 0), 0);
    this.erasures.addReceipt(place, receipt, newest, erasesAgain);
    if (ERASED.includes(receipt.outcome) || forgets(receipt))
      this.mirrors.erase(place.leaf, receipt.memory, receipt.applied.count);
    this.restored = receipt.action === "restoration" ? receipt.memory : null;
  }

  async takeList(place, event) {
    if (this.owing === null)
      place.contradicts("ledger-list-unowed", `a part of ${event.facts.list}, which no receipt owes`);
    const { place: first, stated, owed } = this.owing;
    if (!(await owed.take(place, event))) return;
    this.owing = null;
    if (stated.event === undefined) await this.follow(first, { ...stated, ...owed.found }, place.leaf);
    else this.drop(first, stated, owed.found.entries);
  }

  missingList(place, what) {
    const { place: first, owed } = this.owing;
    place.contradicts("ledger-list-missing", `leaf ${first.leaf} owes a list, ${owed.owed}, and ${what} comes instead`);
  }

  checkAlive(place, memory) {
    const at = this.known.dropped.get(memory);
    if (at !== undefined) place.contradicts("ledger-memory-dropped", `the memory was dropped at leaf ${at}`);
  }

  // The memory that an event is about, which is in the state that it names.
  checkEvent(place, { event, memory, subject }) {
    this.checkAlive(place, memory);
    const history = this.histories.get(memory);
    if (!history?.last) place.contradicts("ledger-memory-unknown", `${event}, and the memory was never created`);
    if (subject.sha256 !== history.last.after) {
      const last = history.last.after;
      place.contradicts("ledger-event-mismatch", `${event} in state ${subject.sha256}; the last one is ${last}`);
    }
    return history;
  }

  // A memory goes, with the entries that are named, or with whatever is there.
  drop(place, event, entries) {
    const history = this.checkEvent(place, event);
    if (!sameSizes(event.facts, history.last.entries.after)) {
      const there = sizesText(history.table.sizes);
      place.contradicts("ledger-event-mismatch", `dropped with ${sizesText(event.facts)}, after ${there}`);
    }
    const { now } = history.table;
    if (entries !== null && (entries.count !== now.size || !entries.commitments.every((name) => now.has(name)))) {
      place.contradicts(
        "ledger-drop-mismatch",
        `dropped with ${entries.count} entries that are not the ${now.size} there`,
      );
    }
    this.holds.drop(place, event);
    this.known.dropped.set(event.memory, place.leaf);
    this.mirrors.erase(place.leaf, event.memory, event.facts.live + event.facts.pruned);
  }

  // Takes a summary by its rule.
  sumUp(place, event, rule) {
    for (const { memory } of event.facts.memories) {
      if (!this.histories.has(memory))
        place.contradicts("ledger-memory-unknown", `memory ${memory} was never created`);
    }
    // Whether entries of a memory can have gone since a leaf.
    rule((memory, leaf) => this.known.dropped.has(memory) || this.histories.get(memory).lastLoss > leaf);
    for (const part of event.facts.memories) if (!ERASED.includes(part.outcome)) this.checkKept(place, part);
  }

  // A sweep leaves no more entries to holds than memories with holds have.
  checkHeld(place, { facts: { held } }) {
    const sizes = this.holds.memories.map((memory) => this.histories.get(memory).table.sizes);
    const there = sizes.reduce((total, { live, pruned }) => total + live + pruned, 0);
    if (held > there) {
      place.contradicts(
        "ledger-sweep-unfounded",
        `it leaves ${held} entries to holds; memories with holds have ${there}`,
      );
    }
  }

  // Where a summary says that nothing was erased, the memory is there, with entries if it should have been, and what
  // forbade it is in the ledger, and still does.
  checkKept(place, { memory, outcome, leaf }) {
    const { live, pruned } = this.histories.get(memory).table.sizes;
    const holds = this.erasures.forbiddenBy(leaf);
    let why = null;
    if (this.known.dropped.has(memory)) why = `was dropped at leaf ${this.known.dropped.get(memory)}`;
    else if (outcome !== "noop" && live + pruned === 0) why = "is empty";
    else if (outcome === "refused" && leaf === null) why = "has no receipt of it";
    else if (holds.length && !this.holds.anyInForce(holds))
      why = `was refused at leaf ${leaf} for holds that are released`;
    if (why !== null)
      place.contradicts("ledger-summary-unfounded", `it counts ${outcome} in memory ${memory}, which ${why}`);
  }
}

// Which key signs what changes no memory.
const nothing = () => {};
const EVENT_RULES = {
  dropped(replay, place, event) {
    replay.checkEvent(place, event);
    replay.drop(place, event, event.facts.entries);
  },
  held: (replay, place, event) => replay.holds.place(place, event, replay.checkEvent(place, event)),
  released: (replay, place, event) => replay.holds.release(place, event, replay.checkEvent(place, event)),
  subject_erased: (replay, place, event) =>
    replay.sumUp(place, event, (mayBeGone) => replay.erasures.summarize(place, event, mayBeGone)),
  erased(replay, place, event) {
    replay.sumUp(place, event, () => replay.erasures.sumUp(place, event));
    replay.checkHeld(place, event);
  },
  erasure_requested: (replay, place, event) => replay.erasures.request(place, event),
  erasure_cancelled: (replay, place, event) => replay.erasures.cancel(place, event),
  key_added: nothing,
  key_revoked: nothing,
  mirror_added(replay, place, event) {
    const { of: memory } = event.facts;
    if (memory !== null) {
      replay.checkAlive(place, memory);
      if (!replay.histories.has(memory))
        place.contradicts("ledger-memory-unknown", `memory ${memory} was never created`);
    }
    replay.mirrors.add(place, event);
  },
  mirror_checked: (replay, place, event) => replay.mirrors.check(place, event),
  mirror_removed: (replay, place, event) => replay.mirrors.remove(place, event),
};
