// Ed25519 public keys as they are handed out, and their signatures, checked by the browser's own WebCrypto.
// Formats: docs/formats/signing-key.md (PEM) and docs/formats/checkpoint.md (verifier keys).

import { equal, fromBase64, join, sha256, toHex, toUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";

const ED25519 = 0x01;
const COSIGNATURE = 0x04;
const KEY_SIZE = 32;
// SubjectPublicKeyInfo of every Ed25519 key, up to the key itself (RFC 8410).
const SPKI = Uint8Array.of(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00);

// What a verifier trusts: a public key and, where it was given as a verifier key, the log's name.
export async function parseTrust(text) {
  const trimmed = text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
  if (trimmed === "") fail("signing-key-missing", "no key was given");
  if (trimmed.startsWith("-----BEGIN")) return parsePem(trimmed);
  return parseVerifierKey(trimmed);
}

async function parsePem(text) {
  const found = /^-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----$/.exec(text);
  const der = found && fromBase64(found[1].replace(/\s/g, ""));
  if (!der) fail("signing-key-malformed", "this is not a PEM public key");
  if (der.length !== SPKI.length + KEY_SIZE || !equal(der.subarray(0, SPKI.length), SPKI)) {
    fail("signing-key-wrong-type", "this is a public key, but not an Ed25519 one");
  }
  return trust(der.slice(SPKI.length), null);
}

async function parseVerifierKey(text) {
  // Base64 may have a plus of its own, so only the first two separate.
  const [, name, id, encoded] = /^([^+]*)\+([^+]*)\+(.*)$/s.exec(text) ?? [];
  const material = encoded === undefined ? null : fromBase64(encoded);
  if (!isKeyName(name ?? "") || !/^[0-9a-f]{8}$/.test(id) || !material?.length) {
    fail("verifier-key-malformed", `${show(text)} is neither a PEM public key nor name+key id+base64`);
  }
  if (material[0] !== ED25519 && material[0] !== COSIGNATURE) {
    fail(
      "verifier-key-unsupported",
      `the verifier key of ${name} has signature type 0x${toHex(material.subarray(0, 1))}`,
    );
  }
  if (material.length !== 1 + KEY_SIZE) {
    fail("verifier-key-malformed", `the verifier key of ${name} has ${material.length - 1} bytes`);
  }
  const follows = toHex(await noteKeyId(name, material.slice(1), material[0]));
  if (follows !== id) fail("verifier-key-id-mismatch", `the verifier key of ${name} has id ${follows}, not ${id}`);
  if (material[0] === COSIGNATURE) {
    fail("verifier-key-unsupported", `${name} is a witness: its key verifies cosignatures, not receipts or heads`);
  }
  return trust(material.slice(1), name);
}

async function trust(raw, origin) {
  return { raw, origin, keyId: toHex(await sha256(join(SPKI, raw))) };
}

// Unicode's white space, which is not \s: that has the byte-order mark, and not U+0085.
export const isKeyName = (name) => name !== "" && !/[+\p{White_Space}\x00-\x1f]/u.test(name);

export async function noteKeyId(name, raw, algorithm = ED25519) {
  return (await sha256(join(toUtf8(name), Uint8Array.of(0x0a, algorithm), raw))).subarray(0, 4);
}

// False for a false signature; what the browser cannot do at all is an error of its own.
export async function verifies(raw, signature, message) {
  const key = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
  return crypto.subtle.verify("Ed25519", key, signature, message);
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
