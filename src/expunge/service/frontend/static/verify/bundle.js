// An evidence bundle: its receipt, its place in the ledger, and whether the state that it shows is the receipt's.
// Mirrors docs/formats/evidence.md but for one step: that the coefficients are the optimum is not recomputed here.

import { equal, fromHex, join, sha256, toHex, toUtf8 } from "./encoding.js";
import { fail } from "./failure.js";
import { TreeRoot } from "./merkle.js";

// Checks everything that SHA-256 can show of a parsed bundle, against its verified receipt.
export async function checkBundle(found, receipt) {
  checkProblem(found, receipt);
  await checkAfter(found, receipt);
  const rows = hexRows(found.commitments);
  await checkPrior(found, receipt, rows);
  await checkApplied(receipt, new Set(rows));
}

function checkProblem({ cap, sigma, dimension, size, prior }, receipt) {
  const stated = receipt.problem;
  if (cap !== stated.cap || sigma !== stated.sigma || dimension !== stated.dimension)
    fail("evidence-problem-mismatch", "cap, width or dimension are not those of the receipt");
  if (size !== receipt.entries.after.live)
    fail("evidence-size-mismatch", `${size} entries; the receipt states ${receipt.entries.after.live}`);
  if (prior === null) return;
  const renewed = ["rebuild", "restoration"].includes(receipt.action);
  const sameCap = prior.cap === stated.cap || renewed || ["refitted", "emptied"].includes(receipt.outcome);
  if (!sameCap || (prior.sigma !== stated.sigma && !renewed))
    fail("evidence-problem-mismatch", "cap or width before the edit are not those of the receipt");
  if (prior.size !== receipt.entries.before.live) {
    fail(
      "evidence-size-mismatch",
      `${prior.size} entries before the edit; the receipt states ${receipt.entries.before.live}`,
    );
  }
}

async function checkAfter(found, receipt) {
  const [keyLength, valueLength] = [found.keys, found.values].map((column) => column.length / found.size);
  for (let row = 0; row < found.size; row += 1) {
    const opened = await sha256(
      join(
        toUtf8("expunge/entry/v1\n"),
        part(found.blinds, row, 32),
        length64(keyLength),
        part(found.keys, row, keyLength),
        length64(valueLength),
        part(found.values, row, valueLength),
      ),
    );
    if (!equal(opened, part(found.commitments, row, 32)))
      fail("evidence-commitment-mismatch", `key, value and blind of row ${row} do not open its commitment`);
  }
  const order = Array.from({ length: found.size }, (_, row) => row);
  if ((await weightsDigest(found.offset, found.coefficients, combined(found.blinds, order))) !== found.weights)
    fail("evidence-weights-mismatch", "offset and coefficients do not have the stated digest");
  if ((await stateDigest(found, found.preprocessing)) !== receipt.after)
    fail("evidence-state-mismatch", `this is not state ${receipt.after}`);
}

async function checkPrior(found, receipt, rows) {
  if (new Set(rows).size !== rows.length)
    fail("evidence-commitment-repeated", "two rows have the same commitment");
  const { prior } = found;
  if (receipt.before === null || receipt.before === receipt.after) {
    if (prior !== null) fail("evidence-prior-mismatch", "the receipt knows no other state before the edit");
    return;
  }
  if (prior === null) fail("evidence-prior-missing", "the state before the edit is not shown");
  // No edit changes the columns of a memory.
  if ((await stateDigest(prior, found.preprocessing)) !== receipt.before)
    fail("evidence-prior-mismatch", `this is not state ${receipt.before}`);
  const earlier = hexRows(prior.commitments);
  const [now, then] = [new Set(rows), new Set(earlier)];
  if (then.size !== earlier.length)
    fail("evidence-commitment-repeated", "two rows before the edit have the same commitment");
  const [removed, added] = [earlier.filter((row) => !now.has(row)), rows.filter((row) => !then.has(row))];
  if (prior.coefficients !== null) {
    if (removed.length)
      fail("evidence-prior-disclosed", "older coefficients beside the remaining keys disclose what was removed");
    const place = new Map(rows.map((row, index) => [row, index]));
    const order = earlier.map((row) => place.get(row));
    if ((await weightsDigest(prior.offset, prior.coefficients, combined(found.blinds, order))) !== prior.weights)
      fail("evidence-weights-mismatch", "offset and coefficients before the edit do not have the stated digest");
  }
  if (receipt.action !== "restoration") await checkChange(receipt, removed, added);
}

async function checkChange({ action, applied, reactivated }, removed, added) {
  const arrived = action === "admission" ? [reactivated, applied] : [reactivated];
  if (!(await areThose(added, arrived)))
    fail("evidence-added-mismatch", `${added.length} entries were added; the receipt names others, or another number`);
  if (!(await isRemoved(action, applied, removed)))
    fail("evidence-removed-mismatch", `${removed.length} entries were removed; the receipt names others`);
}

function isRemoved(action, applied, removed) {
  if (action === "pruning") return areThose(removed, [applied]);
  if (action !== "deletion") return removed.length === 0;
  // A deletion may also name entries that were pruned before, and so were not live.
  if (applied.root === null) return isSubset(removed, applied.commitments);
  return removed.length < applied.count || areThose(removed, [applied]);
}

// Whether these entries are those of the lists. Where two lists are given by their roots, their number decides.
async function areThose(found, lists) {
  const named = lists.flatMap(({ commitments }) => commitments);
  const total = lists.reduce((sum, { count }) => sum + count, 0);
  if (found.length !== total || !isSubset(named, found)) return false;
  const roots = lists.filter(({ root }) => root !== null);
  const known = new Set(named);
  const rest = found.filter((entry) => !known.has(entry)).sort();
  if (roots.length !== 1) return roots.length > 1 || rest.length === 0;
  const tree = new TreeRoot();
  for (const entry of rest) await tree.add(fromHex(entry));
  return rest.length === roots[0].count && toHex(await tree.digest()) === roots[0].root;
}

// What holds of the state after the edit, whether or not the one before is shown.
async function checkApplied({ action, applied }, live) {
  const still = applied.commitments.filter((row) => live.has(row)).length;
  const whole = action !== "creation" || (await areThose([...live], [applied]));
  if (!whole || (action === "admission" && still < applied.commitments.length))
    fail("evidence-added-mismatch", "an admitted entry is not among the live ones");
  if (["deletion", "pruning"].includes(action) && still)
    fail("evidence-removed-mismatch", "a removed entry is still among the live ones");
}

function isSubset(some, all) {
  const known = new Set(all);
  return some.every((item) => known.has(item));
}

const part = (rows, row, size) => rows.subarray(row * size, (row + 1) * size);

const hexRows = (digests) => Array.from({ length: digests.length / 32 }, (_, row) => toHex(part(digests, row, 32)));

// Exclusive or of blinds.
function combined(blinds, order) {
  const veil = new Uint8Array(32);
  for (const row of order) part(blinds, row, 32).forEach((byte, at) => (veil[at] ^= byte));
  return veil;
}

function length64(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(number), true);
  return new Uint8Array(view.buffer);
}

function float64(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number, true);
  return new Uint8Array(view.buffer);
}

export async function weightsDigest(offset, coefficients, veil) {
  const head = [toUtf8("expunge/weights/v1\n"), float64(offset), length64(coefficients.length / 8)];
  return toHex(await sha256(join(...head, veil, coefficients)));
}

// Columns are of no account where there is no entry: the state of none is the same in every memory of a width.
export async function stateDigest({ cap, sigma, size, commitments, weights }, preprocessing) {
  const columns = preprocessing === null || size === 0 ? new Uint8Array(0) : await sha256(preprocessing);
  const head = [toUtf8("expunge/state/v1\n"), float64(cap), float64(sigma), length64(size)];
  return toHex(await sha256(join(...head, commitments, fromHex(weights), columns)));
}
