// The whole verification of one leaf as a list of steps, each done or failed by its own name.
// The receipt's steps and the log's steps are two chains: each stops at its first failure.

import { verifyCheckpoint } from "./checkpoint.js";
import { toHex, toUtf8 } from "./encoding.js";
import { parseEnvelope, parseStatement, verifyEnvelope } from "./envelope.js";
import { EVENT_TYPE, parseEvent } from "./event.js";
import { VerificationError } from "./failure.js";
import { leafHash, verifyInclusion } from "./merkle.js";
import { asFile, parseInclusionProof } from "./proof.js";
import { parseReceipt } from "./receipt.js";
import { parseTrust } from "./signing.js";

// → { steps: [{ title, state: "passed" | "failed" | "skipped", detail, name }], failed: first failure or null }
export async function verifyLeaf({ envelope, proof, trust }) {
  const steps = [];
  // What editors and mail programs put around a line is not part of it.
  const bytes = toUtf8(envelope.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, ""));
  let key, opened, statement, carried, head;
  const trusted = await chain(steps, [
    [
      "The trusted key is an Ed25519 public key",
      async () => {
        key = await parseTrust(trust);
        return `key id ${key.keyId}${key.origin === null ? "" : `, of the log ${key.origin}`}`;
      },
    ],
  ]);
  await chain(
    steps,
    [
      [
        "The envelope is canonical JSON with one payload",
        async () => {
          opened = parseEnvelope(bytes);
          return `${bytes.length} bytes, ${opened.signatures.length === 1 ? "one signature" : `${opened.signatures.length} signatures`}`;
        },
      ],
      [
        "Ed25519: the trusted key signed exactly this payload",
        async () => {
          await verifyEnvelope(opened, key);
          return `over ${opened.payload.length} bytes in DSSE encoding`;
        },
      ],
      [
        "The payload is a canonical in-toto statement",
        async () => {
          statement = parseStatement(opened.payload);
          return statement.type;
        },
      ],
      [
        "The receipt does not contradict itself",
        async () => {
          if (statement.type === EVENT_TYPE) {
            parseEvent(statement);
            return "an event of the store: it has no numbers to compare";
          }
          const receipt = parseReceipt(statement);
          return `${receipt.outcome}: states, entries and coverage agree`;
        },
      ],
    ],
    trusted,
  );
  const log = [
    [
      "The proof names a leaf and carries a signed head",
      async () => {
        carried = parseInclusionProof(asFile(proof));
        return `leaf ${carried.index}, a path of ${carried.path.length} ${carried.path.length === 1 ? "hash" : "hashes"}`;
      },
    ],
    [
      "Ed25519: the log signed the head",
      async () => {
        head = await verifyCheckpoint(carried.note, key);
        const named = key.origin === null ? "; a PEM key does not say which log this should be" : "";
        return `${head.origin}, ${head.size} leaves, root ${toHex(head.root)}${named}`;
      },
    ],
    [
      "SHA-256: the path leads from this envelope to the signed root",
      async () => {
        const leaf = await leafHash(bytes);
        await verifyInclusion(leaf, carried.index, head.size, carried.path, head.root);
        return `leaf hash ${toHex(leaf)}`;
      },
    ],
  ];
  if (proof.trim() === "")
    log.forEach(([title]) => steps.push({ title, state: "skipped", detail: "no proof of inclusion was given" }));
  else await chain(steps, log, trusted);
  return { steps, failed: steps.find((step) => step.state === "failed") ?? null };
}

async function chain(steps, parts, going = true) {
  for (const [title, run] of parts) {
    if (!going) {
      steps.push({ title, state: "skipped", detail: "not reached" });
      continue;
    }
    try {
      steps.push({ title, state: "passed", detail: await run() });
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      steps.push({ title, state: "failed", name: error.name, detail: error.message });
      going = false;
    }
  }
  return going;
}
