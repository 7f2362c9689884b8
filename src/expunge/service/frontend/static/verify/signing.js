// Public keys as they are handed out, and their signatures, checked by the browser's own WebCrypto.
// Formats: docs/formats/signing-key.md (PEM) and docs/formats/checkpoint.md (verifier keys).

import { equal, fromBase64, join, sha256, toBase64, toHex, toUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";
import { checkEdwards, checkP256 } from "./points.js";

const ED25519 = 0x01;
const COSIGNATURE = 0x04;
const MLDSA_COSIGNATURE = 0x06;
const KEY_SIZE = 32;
const MLDSA_KEY_SIZE = 1312;
// SubjectPublicKeyInfo up to the key itself: RFC 8410 for Ed25519, RFC 5480 for P-256, uncompressed.
const SPKI = Uint8Array.of(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00);
const P256_SPKI = Uint8Array.of(
  ...[0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01],
  ...[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00],
);
const P256_SIZE = 65;
const PEM = /-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----/g;

// What a verifier trusts: public keys and, where one was given as a verifier key, the log's name.
// Several stand one after another: receipts and heads may be signed with different keys.
export async function parseTrust(text) {
  const pems = text.match(PEM) ?? [];
  const rest = text.replace(PEM, " ").replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
  if (pems.length === 0 && rest === "") fail("signing-key-missing", "no key was given");
  if (rest.startsWith("-----BEGIN")) fail("signing-key-malformed", "this is not a PEM public key");
  const named = rest === "" ? [] : rest.split(/[ \t\r\n]+/);
  return Promise.all([...pems.map(parsePem), ...named.map(parseVerifierKey)]);
}

async function parsePem(text) {
  const der = fromBase64(text.replace(PEM, "$1").replace(/\s/g, ""));
  if (!der) fail("signing-key-malformed", "this is not a PEM public key");
  if (der.length === SPKI.length + KEY_SIZE && equal(der.subarray(0, SPKI.length), SPKI)) {
    return edwards(der.slice(SPKI.length), null);
  }
  if (der.length === P256_SPKI.length + P256_SIZE && equal(der.subarray(0, P256_SPKI.length), P256_SPKI)) {
    return publicKey("ecdsa-p256", der.slice(P256_SPKI.length));
  }
  return fail("signing-key-wrong-type", "this is a public key, but neither an Ed25519 nor a P-256 one");
}

async function parseVerifierKey(text) {
  const key = await readVerifierKey(text);
  if (key.type !== ED25519)
    fail("verifier-key-unsupported", `${key.origin} is a witness: its key verifies cosignatures, not receipts or heads`);
  return key;
}

// A witness's key, which verifies cosignatures alone.
export async function parseWitness(text) {
  const key = await readVerifierKey(text);
  if (key.type === ED25519) fail("verifier-key-unsupported", `${key.origin} is a ledger, and no witness`);
  return { ...key, noteId: await noteKeyId(key.origin, key.raw, key.type) };
}

// Whether a text looks like the key of a witness.
export const isWitness = (text) =>
  [COSIGNATURE, MLDSA_COSIGNATURE].includes(fromBase64(/^[^+]*\+[^+]*\+(.*)$/s.exec(text)?.[1] ?? "")?.[0]);

async function readVerifierKey(text) {
  // Base64 may have a plus of its own, so only the first two separate.
  const [, name, id, encoded] = /^([^+]*)\+([^+]*)\+(.*)$/s.exec(text) ?? [];
  const material = encoded === undefined ? null : fromBase64(encoded);
  if (!isKeyName(name ?? "") || !/^[0-9a-f]{8}$/.test(id) || !material?.length) {
    fail("verifier-key-malformed", `${show(text)} is neither a PEM public key nor name+key id+base64`);
  }
  const type = material[0];
  if (![ED25519, COSIGNATURE, MLDSA_COSIGNATURE].includes(type)) {
    fail(
      "verifier-key-unsupported",
      `the verifier key of ${name} has signature type 0x${toHex(material.subarray(0, 1))}`,
    );
  }
  if (material.length !== 1 + (type === MLDSA_COSIGNATURE ? MLDSA_KEY_SIZE : KEY_SIZE)) {
    fail("verifier-key-malformed", `the verifier key of ${name} has ${material.length - 1} bytes`);
  }
  const raw = material.slice(1);
  const key = type === MLDSA_COSIGNATURE ? { raw, algorithm: "ml-dsa-44", origin: name } : await edwards(raw, name);
  const follows = toHex(await noteKeyId(name, raw, type));
  if (follows !== id) fail("verifier-key-id-mismatch", `the verifier key of ${name} has id ${follows}, not ${id}`);
  return { ...key, type };
}

async function edwards(raw, origin) {
  checkEdwards(raw);
  return { raw, algorithm: "ed25519", origin, keyId: await fingerprint(toUtf8("ssh-ed25519"), raw) };
}

// A key from its own bytes.
export async function publicKey(algorithm, raw) {
  const size = algorithm === "ed25519" ? KEY_SIZE : P256_SIZE;
  if (raw.length !== size) fail("signing-key-malformed", `a key for ${algorithm} has ${size} bytes, not ${raw.length}`);
  if (algorithm === "ed25519") return edwards(raw, null);
  checkP256(raw);
  const keyId = await fingerprint(toUtf8("ecdsa-sha2-nistp256"), toUtf8("nistp256"), raw);
  return { raw, algorithm, origin: null, keyId };
}

// As OpenSSH writes it: SHA-256 over the parts, each behind its length, in base64 without padding.
async function fingerprint(...parts) {
  const framed = parts.flatMap((part) => [Uint8Array.of(0, 0, 0, part.length), part]);
  return `SHA256:${toBase64(await sha256(join(...framed))).replace(/=+$/, "")}`;
}

// Unicode's white space, which is not \s: that has the byte-order mark, and not U+0085.
export const isKeyName = (name) => name !== "" && !/[+\p{White_Space}\x00-\x1f]/u.test(name);

export async function noteKeyId(name, raw, algorithm = ED25519) {
  return (await sha256(join(toUtf8(name), Uint8Array.of(0x0a, algorithm), raw))).subarray(0, 4);
}

// False for a false signature; what the browser cannot do at all is an error of its own.
export async function verifies({ raw, algorithm }, signature, message) {
  if (algorithm === "ed25519") {
    const key = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
    return crypto.subtle.verify("Ed25519", key, signature, message);
  }
  const pair = fromDer(signature);
  if (pair === null) return false;
  const key = await crypto.subtle.importKey("raw", raw, { name: "ECDSA", namedCurve: "P-256" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, pair, message);
}

// r ‖ s, 32 bytes each, of the one DER spelling of a signature; null for any other bytes.
export function fromDer(der) {
  if (der.length < 8 || der[0] !== 0x30 || der[1] !== der.length - 2 || der.length > 72) return null;
  const pair = new Uint8Array(64);
  let at = 2;
  for (const end of [32, 64]) {
    const size = der[at + 1];
    const body = der.subarray(at + 2, at + 2 + size);
    if (der[at] !== 0x02 || !(size >= 1) || body.length !== size || body[0] & 0x80) return null;
    if (body[0] === 0 && size > 1 && !(body[1] & 0x80)) return null;
    const digits = body[0] === 0 ? body.subarray(1) : body;
    if (digits.length > 32) return null;
    pair.set(digits, end - digits.length);
    at += 2 + size;
  }
  return at === der.length ? pair : null;
}

// Why this browser cannot verify, or null if it can.
export async function unsupportedReason() {
  if (!globalThis.crypto?.subtle) {
    return "This page was not loaded over HTTPS or from this machine, so the browser withholds its cryptography.";
  }
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(KEY_SIZE), "Ed25519", false, ["verify"]);
    return null;
  } catch {
    return "This browser has no Ed25519 in WebCrypto. Use a newer one, or `expunge verify` on the command line.";
  }
}
