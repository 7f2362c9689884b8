// Cosignatures of witnesses on a signed head (c2sp.org/tlog-cosignature, v1). Mirrors docs/formats/checkpoint.md.

import { equal, join, toUtf8 } from "./encoding.js";
import { fail } from "./failure.js";
import { verifies } from "./signing.js";

const MAX_TIME = 2n ** 63n - 1n;
const CLOCK_SKEW = 300n;
const TIME_SIZE = 8;
const SIZES = { ed25519: 64, "ml-dsa-44": 2420 };

// Every known witness's line must verify, and every witness must have one that is not older than `maxAge` seconds.
// Browsers have no ML-DSA-44: whose line is by such a key alone is `unchecked`.
// → { cosigned: [{ name, time }], unchecked: [{ name, time }] }
export async function verifyCosignatures(note, { witnesses, maxAge = null }, now) {
  const [cosigned, old, unchecked] = [[], [], []];
  for (const { key, time, signature } of knownLines(note, witnesses)) {
    if (time > BigInt(Math.floor(now)) + CLOCK_SKEW)
      fail("cosignature-from-future", `${key.origin} cosigned at ${time}, which is after ${now}`);
    const message = join(toUtf8(`cosignature/v1\ntime ${time}\n`), note.text);
    const cannot = key.algorithm === "ml-dsa-44";
    if (!cannot && !(await verifies(key, signature, message)))
      fail("cosignature-invalid", `the cosignature by ${key.origin} is not over this head and time`);
    const isOld = maxAge !== null && BigInt(Math.floor(now)) - time > BigInt(maxAge);
    (isOld ? old : cannot ? unchecked : cosigned).push({ key, time });
  }
  const all = countWitnesses(witnesses);
  const count = (...lines) => countWitnesses(lines.flat().map(({ key }) => key));
  const told = (lines) => lines.map(({ key, time }) => ({ name: key.origin, time }));
  if (count(cosigned) === all) return { cosigned: told(cosigned), unchecked: [] };
  if (count(cosigned, unchecked) === all) return { cosigned: told(cosigned), unchecked: told(unchecked) };
  if (count(cosigned, unchecked, old) === all) {
    const ages = old.map(({ key, time }) => `${key.origin} cosigned ${BigInt(Math.floor(now)) - time} seconds ago`);
    fail("cosignature-too-old", `${ages.join(", ")}; at most ${maxAge} are allowed`);
  }
  return fail("cosignature-quorum-missed", `${count(cosigned, unchecked, old)} trusted witnesses cosigned; ${all} are needed`);
}

// Keys that share a name or a public key are one witness's: a cosignature does not cover the name, and a witness may
// have a key of each type.
function countWitnesses(keys) {
  let groups = [];
  for (const key of keys) {
    const labels = [`name ${key.origin}`, `key ${key.raw.join()}`];
    const touches = (group) => labels.some((label) => group.includes(label));
    groups = [...groups.filter((group) => !touches(group)), [...labels, ...groups.filter(touches).flat()]];
  }
  return groups.length;
}

function knownLines(note, witnesses) {
  const found = [];
  for (const { name, keyId, signature } of note.signatures) {
    const key = witnesses.find(({ origin, noteId }) => origin === name && equal(noteId, keyId));
    if (key === undefined) continue;
    if (signature.length !== TIME_SIZE + SIZES[key.algorithm])
      fail("cosignature-malformed", `the cosignature by ${name} has ${signature.length} bytes`);
    const time = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
    if (time > MAX_TIME || (time === 0n && key.algorithm === "ml-dsa-44"))
      fail("cosignature-time-invalid", `the cosignature by ${name} has time ${time}`);
    found.push({ key, time, signature: signature.slice(TIME_SIZE) });
  }
  return found;
}
