// Which keys may sign the next leaf of a ledger, and its head. Mirrors docs/formats/signing-key.md, "Keys in the ledger".

import { fromBase64, toHex, toUtf8 } from "./encoding.js";
import { parseEnvelope, parseStatement } from "./envelope.js";
import { parseEvent } from "./event.js";
import { fail, VerificationError } from "./failure.js";
import { publicKey } from "./signing.js";

const PAYLOAD = '{"payload":"';
const USES = ["receipts", "heads"];

// SHA-256 of the key as SSH writes it: its id in events.
const digestOf = ({ keyId }) => toHex(fromBase64(`${keyId.replace("SHA256:", "")}=`));

export class KeyTimeline {
  // The keys that the verifier trusts; what an event adds is no key before, whoever trusts it.
  constructor(keys, added) {
    this.valid = { receipts: new Map(), heads: new Map() };
    this.known = { receipts: new Set(), heads: new Set() };
    for (const use of USES) {
      const later = new Set(added.filter((one) => one.use === use).map(({ key }) => digestOf(key)));
      const fits = keys.filter((key) => use === "receipts" || key.algorithm === "ed25519");
      for (const key of fits) if (!later.has(digestOf(key))) this.add(use, key);
    }
  }

  add(use, key) {
    this.valid[use].set(digestOf(key), key);
    this.known[use].add(digestOf(key));
  }

  keys(use) {
    return [...this.valid[use].values()];
  }

  // Takes up the event in a leaf that a valid key has signed.
  async follow(index, { event, facts, subject }) {
    if (event === "key_added") {
      const key = await addedKey(index, facts, subject);
      if (this.known[facts.use].has(digestOf(key)))
        fail("ledger-key-repeated", `leaf ${index}: key ${key.keyId} is or was a key for ${facts.use} already`);
      this.add(facts.use, key);
    } else if (event === "key_revoked") {
      const { use, keyid } = facts;
      if (subject.sha256 !== keyid) fail("ledger-key-malformed", `leaf ${index}: the event is about another key`);
      if (!this.valid[use].has(keyid)) fail("ledger-key-unknown", `leaf ${index}: ${keyid} is no valid key for ${use}`);
      if (this.valid[use].size === 1)
        fail("ledger-key-last", `leaf ${index}: without ${keyid} there is no key for ${use} left`);
      this.valid[use].delete(keyid);
    }
  }
}

async function addedKey(index, { use, key: encoded, algorithm, keyid }, subject) {
  let key;
  try {
    key = await publicKey(algorithm, fromBase64(encoded));
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    fail("ledger-key-malformed", `leaf ${index}: ${error.message}`);
  }
  const fits = use === "receipts" || algorithm === "ed25519";
  if (!fits || keyid !== subject.sha256 || keyid !== digestOf(key))
    fail("ledger-key-malformed", `leaf ${index}: the added key is not ${keyid}, or cannot sign ${use}`);
  return key;
}

// The keys that leaves claim to add, with their use; what is malformed is refused when the leaf is verified.
export async function addedKeys(lines) {
  const found = [];
  const start = toUtf8(PAYLOAD);
  for (const line of lines) {
    if (!start.every((byte, at) => line[at] === byte)) continue;
    const text = new TextDecoder().decode(line.subarray(PAYLOAD.length, line.indexOf(0x22, PAYLOAD.length)));
    const payload = fromBase64(text);
    // Few leaves are about keys; the others are not parsed twice.
    if (payload === null || !new TextDecoder().decode(payload).includes('"event":"key_added"')) continue;
    try {
      const { facts, subject } = parseEvent(parseStatement(parseEnvelope(line).payload));
      found.push({ use: facts.use, key: await addedKey(0, facts, subject) });
    } catch (error) {
      if (!(error instanceof VerificationError || error instanceof TypeError)) throw error;
    }
  }
  return found;
}
