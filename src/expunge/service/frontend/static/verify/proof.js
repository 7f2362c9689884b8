// Proofs that travel: a path and the signed head that it leads to. Mirrors docs/formats/log-proof.md.

import { parseNote, verifyCheckpoint } from "./checkpoint.js";
import { fromBase64, fromDecimal, fromUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";
import { verifyConsistency } from "./merkle.js";

const HEADER = "c2sp.org/tlog-proof@v1";
const MAX_HASHES = 63;
const MAX_PROOF = (256 + 64) * 1024;

export function parseInclusionProof(bytes) {
  const { lines, note } = open(bytes);
  if (lines.shift() !== HEADER) fail("log-proof-header-invalid", `an inclusion proof begins with ${HEADER}`);
  if (lines[0]?.startsWith("extra ") && fromBase64(lines.shift().slice(6)) === null) {
    fail("log-proof-extra-invalid", "the extra data are not base64");
  }
  const index = numbered(lines, "index ");
  if (index === null) fail("log-proof-index-invalid", "the line with the leaf's index is missing or not a decimal");
  return { index, path: hashes(lines), note };
}

export function parseExtensionProof(bytes) {
  const { lines, note } = open(bytes);
  const oldSize = numbered(lines, "old ");
  if (oldSize === null) fail("log-proof-old-size-invalid", "the line with the older size is missing or not a decimal");
  return { oldSize, path: hashes(lines), note };
}

// Checks that the log only grew since the head that was kept, and returns the newer head.
export async function verifyExtension(kept, proofBytes, trust) {
  const older = await verifyCheckpoint(parseNote(kept), trust);
  const proof = parseExtensionProof(proofBytes);
  const newer = await verifyCheckpoint(proof.note, trust);
  if (older.origin !== newer.origin) {
    fail("checkpoint-origin-mismatch", `heads of two logs, ${show(older.origin)} and ${show(newer.origin)}`);
  }
  if (proof.oldSize !== older.size) {
    fail("log-proof-old-size-mismatch", `the proof starts from size ${proof.oldSize}, the kept head is ${older.size}`);
  }
  await verifyConsistency(older.size, older.root, newer.size, newer.root, proof.path);
  return newer;
}

// Splits a proof at its first empty line: lines before it, the note after it.
function open(bytes) {
  if (bytes.length > MAX_PROOF)
    fail("log-proof-too-large", `a proof of ${bytes.length} bytes exceeds the limit of ${MAX_PROOF}`);
  const at = bytes.findIndex((byte, index) => byte === 10 && bytes[index + 1] === 10);
  if (at < 0) fail("log-proof-unterminated", "no empty line separates the path from the checkpoint");
  const head = fromUtf8(bytes.subarray(0, at));
  if (head === null) fail("log-proof-not-utf8", "the proof is not UTF-8");
  return { lines: head.split("\n"), note: parseNote(bytes.slice(at + 2)) };
}

function numbered(lines, label) {
  return lines[0]?.startsWith(label) ? fromDecimal(lines.shift().slice(label.length)) : null;
}

function hashes(lines) {
  if (lines.length > MAX_HASHES) fail("log-proof-too-many-hashes", `${lines.length} hashes are more than any tree needs`);
  return lines.map((line) => {
    const digest = fromBase64(line);
    if (digest?.length !== 32) fail("log-proof-hash-invalid", `${show(line)} is not a hash`);
    return digest;
  });
}

