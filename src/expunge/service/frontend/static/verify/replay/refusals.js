// Whether an edit can have been refused for the reason that its receipt states.

import { fewestLive } from "../receipt.js";

export function checkRefusal(place, receipt, history, holds) {
  const { action, refusal } = receipt;
  if (refusal === null || history.last === null) return;
  if (refusal.reason === "no_acceptable_state") {
    if (mostFitted(receipt, history.table) <= 1)
      unfounded(place, receipt, "no edit of these entries needs more than a fit of one, which is exact");
    return;
  }
  const isHeld = refusal.reason === "legal_hold";
  const { archived, certificates } = history.table;
  const [least, most] = isHeld ? held(place, receipt, history.table, holds) : [1, archived + certificates];
  const suits = isHeld ? ["deletion", "pruning"].includes(action) : action === "admission";
  const { measured, allowed } = refusal;
  if (!suits || allowed !== 0 || measured < least || measured > most)
    unfounded(place, receipt, `${measured} measured, ${allowed} allowed, and ${least} to ${most} are possible`);
}

// → the fewest entries, or holds of a memory that was to be dropped, that a refusal can count, and the most.
function held(place, receipt, table, holds) {
  const prunes = receipt.action === "pruning";
  const inForce = holds.inForce.get(receipt.memory) ?? new Set();
  const numbers = receipt.refusal.holds;
  for (const number of numbers) {
    if (!inForce.has(number)) place.contradicts("ledger-hold-not-in-force", `refused for hold ${number}, not in force here`);
    const { entry } = holds.placed.get(number);
    if (entry === null) continue;
    const status = table.now.get(entry)?.status ?? "not there";
    if (status === "not there" || (prunes && status !== "live"))
      unfounded(place, receipt, `the entry of hold ${number}, ${entry}, is ${status}`);
  }
  const least = numbers.length;
  if (numbers.every((number) => holds.placed.get(number).entry !== null)) return [least, least];
  // A drop counts its holds, and needs no entry.
  const { live, pruned } = table.sizes;
  return [least, prunes ? live : Math.max(least, live + pruned)];
}

// How many entries the fit is of, at most, that an edit of this kind needs.
function mostFitted({ action, problem }, { sizes: { live }, archived }) {
  if (action === "deletion") return live + archived - 1;
  // Where all have weight, none is taken.
  if (action === "pruning") return live > fewestLive(problem.cap) ? live - 1 : 0;
  return action === "rebuild" ? live + archived : Infinity;
}

function unfounded(place, { action, refusal: { reason } }, why) {
  place.contradicts("ledger-refusal-unfounded", `a ${action} refused for ${reason}: ${why}`);
}
