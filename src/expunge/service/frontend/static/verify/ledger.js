// A whole ledger: every leaf verifies, none contradicts those before it, and the root is that of the signed head.
// Mirrors docs/formats/ledger-replay.md; what leaves say of each other is in replay/.

import { parseCheckpoint, verifyCheckpoint } from "./checkpoint.js";
import { equal, toHex } from "./encoding.js";
import { parseEnvelope, parseStatement, verifyEnvelope } from "./envelope.js";
import { EVENT_TYPE, parseEvent } from "./event.js";
import { fail, VerificationError } from "./failure.js";
import { addedKeys, KeyTimeline } from "./key_timeline.js";
import { TreeRoot } from "./merkle.js";
import { parseReceipt } from "./receipt.js";
import { LedgerReplay } from "./replay/replay.js";

// What a leaf says against itself has its own code, as what it says against other leaves has.
const CONTRADICTIONS = [
  "receipt-applied-empty",
  "receipt-cap-infeasible",
  "receipt-count-mismatch",
  "receipt-empty-unstated",
  "receipt-entries-mismatch",
  "receipt-refusal-not-exceeded",
  "receipt-refusal-unmeasured",
  "receipt-state-mismatch",
  "statement-summary-empty",
];

// Keys that may have signed a head of the ledger: those that are trusted, and those that its leaves add.
export async function headKeys(lines, keys) {
  const added = await addedKeys(lines);
  return [...keys, ...added.filter(({ use }) => use === "heads").map(({ key }) => key)];
}

// `notes` are heads that were verified with `headKeys`, the largest first; `seen` has { head, time } where somebody is known to have seen one.
// `each` gets every leaf, `progress` how many are done. → what the ledger tells of.
export async function verifyLedger(lines, notes, keys, { now = null, seen = [], each = () => {}, progress = () => {} } = {}) {
  const heads = notes.map(({ text }) => parseCheckpoint(text));
  const timeline = new KeyTimeline(keys, await addedKeys(lines));
  const known = [...heads, ...seen.map(({ head }) => head)];
  const replay = new LedgerReplay(now, seen.map(({ head, time }) => ({ size: Number(head.size), time })));
  const tree = new TreeRoot();
  for (const [index, line] of lines.entries()) {
    await checkRoot(tree, known);
    const leaf = await tree.add(line);
    const { statement, stated } = await opened(index, line, timeline.keys("receipts"));
    await replay.add(index, leaf, stated);
    await timeline.follow(index, stated);
    each(index, stated, statement);
    if (index % 64 === 0) await progress(index, lines.length);
  }
  const tally = replay.finish(tree.size);
  const largest = known.reduce((most, { size }) => (size > most ? size : most), 0n);
  if (heads.length && (BigInt(tree.size) !== heads[0].size || BigInt(tree.size) < largest)) {
    fail(
      "ledger-size-mismatch",
      `${tree.size} leaves, and a head of ${largest}: leaves are missing, or the head is another one's`,
    );
  }
  await checkRoot(tree, known);
  // The key of the head is one that is valid at its end.
  if (notes.length) await verifyCheckpoint(notes[0], timeline.keys("heads"));
  return tally;
}

async function checkRoot(tree, heads) {
  const due = heads.filter(({ size }) => size === BigInt(tree.size));
  if (!due.length) return;
  const found = await tree.digest();
  if (due.some(({ root }) => !equal(root, found))) {
    fail(
      "ledger-root-mismatch",
      `the first ${tree.size} leaves lead to root ${toHex(found)}, which is not that of the head`,
    );
  }
}

async function opened(index, line, keys) {
  try {
    const envelope = parseEnvelope(line);
    await verifyEnvelope(envelope, keys);
    const statement = parseStatement(envelope.payload);
    return { statement, stated: statement.type === EVENT_TYPE ? parseEvent(statement) : parseReceipt(statement) };
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    if (CONTRADICTIONS.includes(error.name)) fail(error.name, `leaf ${index}: ${error.message}`);
    return fail("ledger-receipt-invalid", `leaf ${index}: ${error.name}: ${error.message}`);
  }
}
