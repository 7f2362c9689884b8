// Certificates as far as time stamps need them: names, dates, purposes, and whether one signed another.

import { DerError, need, oidOf, parseDer, TAG, timeOf } from "./der.js";
import { equal, fromBase64 } from "./encoding.js";
import { Unchecked } from "./failure.js";

const HASHES = {
  "2.16.840.1.101.3.4.2.1": "SHA-256",
  "2.16.840.1.101.3.4.2.2": "SHA-384",
  "2.16.840.1.101.3.4.2.3": "SHA-512",
};
export const hashOf = (oid) => HASHES[oid] ?? null;
const CURVES = { "1.2.840.10045.3.1.7": ["P-256", 32], "1.3.132.0.34": ["P-384", 48], "1.3.132.0.35": ["P-521", 66] };
const RSA = "1.2.840.113549.1.1.1";
const EC = "1.2.840.10045.2.1";
const PSS = "1.2.840.113549.1.1.10";
const ED25519 = "1.3.101.112";
// Signature algorithms that name their hash.
const SIGNATURES = {
  "1.2.840.113549.1.1.11": "SHA-256",
  "1.2.840.113549.1.1.12": "SHA-384",
  "1.2.840.113549.1.1.13": "SHA-512",
  "1.2.840.10045.4.3.2": "SHA-256",
  "1.2.840.10045.4.3.3": "SHA-384",
  "1.2.840.10045.4.3.4": "SHA-512",
};
const COMMON_NAME = "2.5.4.3";
const EXTENDED_USE = "2.5.29.37";
const CONSTRAINTS = "2.5.29.19";
const STAMPING = "1.3.6.1.5.5.7.3.8";
const MOST_STEPS = 8;

export function pemCertificates(text) {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => {
    const der = fromBase64(block.replace(/-----[A-Z ]*-----|\s/g, ""));
    if (der === null) throw new DerError("a certificate that is not base64");
    return parseCertificate(der);
  });
}

export function parseCertificate(der) {
  const [body, algorithm, signature] = need(parseDer(der), TAG.sequence, 3).children;
  const fields = need(body, TAG.sequence, 6).children;
  if (fields[0].tag === 0xa0) fields.shift();
  const [serial, inner, issuer, validity, subject, key, ...rest] = fields;
  const [from, to] = need(validity, TAG.sequence, 2).children;
  const listed = rest.find((part) => part.tag === 0xa3)?.children[0]?.children ?? [];
  return {
    raw: der,
    signed: body.raw,
    algorithm: oidOf(need(algorithm, TAG.sequence, 1).children[0]),
    // Stated twice, and signed once.
    isOneAlgorithm: equal(need(inner, TAG.sequence, 1).raw, algorithm.raw),
    signature: bitsOf(signature),
    serial: need(serial, TAG.integer).body,
    issuer: need(issuer, TAG.sequence).raw,
    subject: need(subject, TAG.sequence).raw,
    name: commonName(subject),
    from: timeOf(from),
    to: timeOf(to),
    key: need(key, TAG.sequence, 2),
    extensions: listed.map(parseExtension),
  };
}

function parseExtension(node) {
  const [oid, ...rest] = need(node, TAG.sequence, 2).children;
  const critical = rest[0].tag === TAG.boolean && rest[0].body[0] === 0xff;
  return { oid: oidOf(oid), critical, value: parseDer(need(rest.at(-1), TAG.octets).body) };
}

function bitsOf(node) {
  const { body } = need(node, TAG.bits);
  if (body[0] !== 0) throw new DerError("a bit string");
  return body.subarray(1);
}

function commonName(subject) {
  const parts = subject.children.flatMap((set) => set.children);
  const found = parts.find((part) => oidOf(part.children[0]) === COMMON_NAME);
  return found ? new TextDecoder().decode(found.children[1].body) : "an authority without a name";
}

// For time stamps and nothing else, and critically so.
export function isForStamps({ extensions }) {
  const use = extensions.find(({ oid }) => oid === EXTENDED_USE);
  return use !== undefined && use.critical && use.value.children.map(oidOf).join() === STAMPING;
}

const isAuthority = ({ extensions }) => {
  const value = extensions.find(({ oid }) => oid === CONSTRAINTS)?.value;
  return value?.children[0]?.tag === TAG.boolean && value.children[0].body[0] === 0xff;
};

// Whether the certificate leads to a root, each one valid at that time.
export async function leadsToRoot(certificate, carried, roots, time, steps = 0) {
  if (time < certificate.from || time > certificate.to || steps > MOST_STEPS) return false;
  const issued = async (by) =>
    equal(by.subject, certificate.issuer) && isAuthority(by) && (await signed(by, certificate));
  for (const root of roots) {
    if ((await issued(root)) && time >= root.from && time <= root.to) return true;
  }
  for (const between of carried) {
    if (between !== certificate && (await issued(between)) && (await leadsToRoot(between, carried, roots, time, steps + 1)))
      return true;
  }
  return false;
}

const signed = async (by, { algorithm, isOneAlgorithm, signed: bytes, signature }) =>
  isOneAlgorithm && verifiesWith(by.key, algorithm, null, signature, bytes);

// Whether the key of a certificate made a signature; a `hash` that stands beside it goes before that of the algorithm.
export async function verifiesWith(key, algorithm, hash, signature, bytes) {
  const [kind, parameters] = need(key.children[0], TAG.sequence, 1).children;
  const digest = hash ?? SIGNATURES[algorithm] ?? null;
  const type = oidOf(kind);
  if (type === ED25519) return verify(key, "Ed25519", "Ed25519", signature, bytes);
  if (digest === null || algorithm === PSS) throw new Unchecked(`the signature algorithm ${algorithm} is not known here`);
  if (type === RSA) {
    const name = "RSASSA-PKCS1-v1_5";
    return verify(key, { name, hash: digest }, name, signature, bytes);
  }
  const curve = type === EC ? CURVES[oidOf(parameters)] : undefined;
  if (curve === undefined) throw new Unchecked(`a key of the type ${type} is not known here`);
  const pair = pairOf(signature, curve[1]);
  if (pair === null) return false;
  return verify(key, { name: "ECDSA", namedCurve: curve[0] }, { name: "ECDSA", hash: digest }, pair, bytes);
}

async function verify(key, kind, how, signature, bytes) {
  const made = await crypto.subtle.importKey("spki", key.raw.slice(), kind, false, ["verify"]);
  return crypto.subtle.verify(how, made, signature.slice(), bytes.slice());
}

// r ‖ s of a signature in DER.
function pairOf(der, size) {
  try {
    const numbers = need(parseDer(der), TAG.sequence, 2).children;
    const pair = new Uint8Array(2 * size);
    numbers.forEach((node, at) => {
      const digits = need(node, TAG.integer).body;
      const short = digits[0] === 0 ? digits.subarray(1) : digits;
      pair.set(short, (at + 1) * size - short.length);
    });
    return pair;
  } catch {
    return null;
  }
}
