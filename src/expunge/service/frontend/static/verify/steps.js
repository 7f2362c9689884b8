// Verifications as lists of steps, each passed, failed by its own name, or not done.
// The receipt's steps and the ledger's steps are two chains: each stops at its first failure.

import { verifyCheckpoint } from "./checkpoint.js";
import { verifyCosignatures } from "./cosignature.js";
import { equal, toHex, toUtf8 } from "./encoding.js";
import { envelopeBytes, parseStatement, readEnvelope, verifyEnvelope } from "./envelope.js";
import { EVENT_TYPE, parseEvent } from "./event.js";
import { Unchecked, VerificationError } from "./failure.js";
import { asFile, trimmed } from "./files.js";
import { leafHash, verifyInclusion } from "./merkle.js";
import { parseInclusionProof } from "./proof.js";
import { parseReceipt } from "./receipt.js";
import { readTrust } from "./trust.js";

// A chain of steps: `await step(title, run)` does each one, and is false once one has failed.
export function chain(steps, start = true) {
  let going = start;
  return async (title, run) => {
    if (!going) {
      steps.push({ title, state: "skipped", detail: "not reached" });
      return false;
    }
    try {
      steps.push({ title, state: "passed", detail: await run() });
    } catch (error) {
      if (error instanceof Unchecked) {
        steps.push({ title, state: "skipped", detail: `not checked here: ${error.message}` });
        return true;
      }
      if (!(error instanceof VerificationError)) throw error;
      steps.push({ title, state: "failed", name: error.name, detail: error.message });
      going = false;
    }
    return going;
  };
}

export const failureOf = (steps) => steps.find((step) => step.state === "failed") ?? null;

// The steps of one receipt, in any spelling of DSSE. → its bytes as the leaf that it is, what it states, and who signed
// it, as far as the steps came.
export async function checkLeaf(steps, bytes, trust) {
  const step = chain(steps);
  let envelope;
  const found = { bytes };
  await step("The envelope is DSSE with one payload", () => {
    envelope = readEnvelope(bytes);
    found.bytes = envelopeBytes(envelope);
    const count = envelope.signatures.length;
    const spelled = equal(found.bytes, bytes) ? "" : "; written anew, as another spelling than the leaf has";
    return `${bytes.length} bytes, ${count === 1 ? "one signature" : `${count} signatures`}${spelled}`;
  });
  await step("A trusted key signed exactly this payload", async () => {
    found.signer = await verifyEnvelope(envelope, trust.keys);
    return `${found.signer}, over ${envelope.payload.length} bytes in DSSE encoding`;
  });
  await step("The payload is a canonical in-toto statement", () => {
    found.statement = parseStatement(envelope.payload);
    return found.statement.type;
  });
  await step("The receipt does not contradict itself", () => {
    found.isEvent = found.statement.type === EVENT_TYPE;
    found.stated = found.isEvent ? parseEvent(found.statement) : parseReceipt(found.statement);
    return found.isEvent ? "an event of the store: it has no numbers to compare" : `${found.stated.outcome}: states, entries and coverage agree`;
  });
  return found;
}

const INCLUSION = [
  "The proof names a leaf and carries a signed head",
  "Ed25519: the ledger signed the head",
  "SHA-256: the path leads from this envelope to the signed root",
];

// The steps of a leaf's place in the ledger. → its index, and the head.
export async function checkInclusion(steps, bytes, proof, trust, now) {
  const found = {};
  if (proof === null) {
    INCLUSION.forEach((title) => steps.push({ title, state: "skipped", detail: "no proof of inclusion was given" }));
    return found;
  }
  const step = chain(steps);
  let carried;
  await step(INCLUSION[0], () => {
    carried = parseInclusionProof(asFile(proof));
    const count = carried.path.length;
    return `leaf ${carried.index}, a path of ${count} ${count === 1 ? "hash" : "hashes"}`;
  });
  await step(INCLUSION[1], async () => {
    found.head = await verifyCheckpoint(carried.note, trust.keys);
    return headDetail(found.head, trust);
  });
  await step(INCLUSION[2], async () => {
    const leaf = await leafHash(bytes);
    await verifyInclusion(leaf, carried.index, found.head.size, carried.path, found.head.root);
    found.index = carried.index;
    found.note = carried.note;
    return `leaf hash ${toHex(leaf)}`;
  });
  if (trust.witnesses.length) await checkWitnesses(step, () => carried.note, trust, now, found);
  return found;
}

export function headDetail(head, trust) {
  const named = trust.keys.some((key) => key.origin !== null);
  return `${head.origin}, ${head.size} leaves, root ${toHex(head.root)}${named ? "" : "; a PEM key does not say which ledger this should be"}`;
}

// Every witness whose key was given must have cosigned; `found` takes their names and times.
export function checkWitnesses(step, noteOf, trust, now, found) {
  return step("Every witness that you trust cosigned the head", async () => {
    Object.assign(found, await verifyCosignatures(noteOf(), trust, now));
    const told = found.cosigned.map(({ name, time }) => `${name} at ${new Date(Number(time) * 1000).toISOString()}`);
    const names = found.unchecked.map(({ name }) => name);
    if (names.length)
      throw new Unchecked([`${names.join(", ")} signed with ML-DSA-44, which browsers do not have`, ...told].join("; "));
    return told.join("; ");
  });
}

// A leaf and its proof as texts. `heads`: the keys that may sign the head, where not all of `trust` may.
// → { steps, failed: first failure or null }
export async function verifyLeaf({ envelope, proof, trust, heads = trust }) {
  const steps = [];
  let known, signing;
  const trusted = await chain(steps)("The trusted keys are public keys that can be relied on", async () => {
    known = await readTrust(trust);
    signing = await readTrust(heads);
    return keysDetail(known);
  });
  if (trusted) {
    const bytes = trimmed(toUtf8(envelope));
    const leaf = await checkLeaf(steps, bytes, known);
    await checkInclusion(steps, leaf.bytes, proof.trim() === "" ? null : toUtf8(proof), signing, Date.now() / 1000);
  }
  return { steps, failed: failureOf(steps) };
}

export const keysDetail = ({ keys, witnesses, roots }) =>
  [
    ...keys.map((key) => `key ${key.keyId}${key.origin === null ? "" : `, of the ledger ${key.origin}`}`),
    ...witnesses.map((key) => `witness ${key.origin}`),
    ...roots.map((root) => `time-stamping authority ${root.name}`),
  ].join("; ");
