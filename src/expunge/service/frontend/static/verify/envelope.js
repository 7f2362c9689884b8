// DSSE envelopes around in-toto statements. Mirrors docs/formats/envelope.md, "Verification", step by step.

import { checkFields, isObject, parseCanonical } from "./canonical.js";
import { fromBase64, isSha256Hex, join, toUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";
import { verifies } from "./signing.js";

export const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const MAX_ENVELOPE = 6 * 1024 * 1024;
const MAX_PAYLOAD = 4 * 1024 * 1024;
const MAX_SIGNATURES = 16;
const MAX_VALUES = 256;

// Steps 1 to 3: the envelope's own form. Nothing in the payload is looked at.
export function parseEnvelope(bytes) {
  const document = parseCanonical(bytes, MAX_ENVELOPE, MAX_VALUES);
  if (!isObject(document)) fail("envelope-not-object", "an envelope is a JSON object");
  checkFields(
    document,
    ["payload", "payloadType", "signatures"],
    "the envelope",
    "envelope-field-missing",
    "envelope-field-unknown",
  );
  if (document.payloadType !== PAYLOAD_TYPE) {
    fail("envelope-payload-type-unsupported", `${show(document.payloadType)} is not ${PAYLOAD_TYPE}`);
  }
  const payload = typeof document.payload === "string" ? fromBase64(document.payload) : null;
  if (payload === null || payload.length > MAX_PAYLOAD) {
    fail("envelope-payload-invalid", `the payload is not base64 of at most ${MAX_PAYLOAD} bytes`);
  }
  return { payload, signatures: parseSignatures(document.signatures) };
}

function parseSignatures(value) {
  if (!Array.isArray(value) || !value.every(isObject)) {
    fail("envelope-signature-list-invalid", "the signatures of an envelope are a list of objects");
  }
  if (value.length === 0) fail("envelope-unsigned", "the envelope has no signature");
  if (value.length > MAX_SIGNATURES) {
    fail("envelope-too-many-signatures", `${value.length} signatures exceed the limit of ${MAX_SIGNATURES}`);
  }
  const seen = new Set();
  return value.map((item) => {
    checkFields(item, ["keyid", "sig"], "the signature", "envelope-field-missing", "envelope-field-unknown");
    const keyId = item.keyid;
    if (!isSha256Hex(keyId)) fail("envelope-key-id-invalid", `${show(keyId)} is not the id of a key`);
    if (seen.has(keyId)) fail("envelope-duplicate-key-id", `two signatures are by key ${keyId}`);
    seen.add(keyId);
    const signature = typeof item.sig === "string" ? fromBase64(item.sig) : null;
    if (signature?.length !== 64) {
      fail("envelope-signature-encoding-invalid", `the signature by ${keyId} is not base64 of 64 bytes`);
    }
    return { keyId, signature };
  });
}

// Steps 4 and 5: every signature by the trusted key verifies, and there is one.
export async function verifyEnvelope(envelope, trust) {
  const kind = toUtf8(PAYLOAD_TYPE);
  const head = toUtf8(`DSSEv1 ${kind.length} ${PAYLOAD_TYPE} ${envelope.payload.length} `);
  const message = join(head, envelope.payload);
  let signed = false;
  for (const { keyId, signature } of envelope.signatures) {
    if (keyId !== trust.keyId) continue;
    if (!(await verifies(trust.raw, signature, message))) {
      fail("envelope-signature-invalid", `the signature by key ${keyId} is not over this payload`);
    }
    signed = true;
  }
  if (!signed) fail("envelope-signer-unknown", "no signature on the envelope is by the trusted key");
}

// Steps 6 and 7: the statement.
export function parseStatement(payload) {
  const document = parseCanonical(payload, MAX_PAYLOAD);
  if (!isObject(document)) fail("statement-not-object", "a statement is a JSON object");
  const fields = ["_type", "subject", "predicateType", "predicate"];
  checkFields(document, fields, "the statement", "statement-field-missing", "statement-field-unknown");
  if (document._type !== STATEMENT_TYPE)
    fail("statement-type-unsupported", `${show(document._type)} is not ${STATEMENT_TYPE}`);
  const subjects = parseSubjects(document.subject);
  const type = document.predicateType;
  if (typeof type !== "string" || !/^[a-z][a-z0-9+.-]*:[!-~]+$/.test(type)) {
    fail("statement-predicate-type-invalid", `predicate type ${show(type)} is not a URI`);
  }
  if (!isObject(document.predicate)) fail("statement-predicate-invalid", "a predicate is a JSON object");
  return { subjects, type, predicate: document.predicate };
}

function parseSubjects(value) {
  if (!Array.isArray(value) || value.length === 0) {
    fail("statement-subject-invalid", "the subjects of a statement are a non-empty list");
  }
  const names = new Set();
  return value.map((item) => {
    if (!isObject(item)) fail("statement-subject-invalid", "a subject is a JSON object");
    checkFields(item, ["name", "digest"], "the subject", "statement-field-missing", "statement-field-unknown");
    const { name, digest } = item;
    if (typeof name !== "string" || name === "")
      fail("statement-subject-invalid", `${show(name)} is not the name of a subject`);
    if (names.has(name)) fail("statement-subject-duplicate", `two subjects are named ${show(name)}`);
    names.add(name);
    const sha256 = isObject(digest) && Object.keys(digest).length === 1 ? digest.sha256 : null;
    if (!isSha256Hex(sha256)) fail("statement-digest-invalid", `the digest of ${show(name)} is not one SHA-256`);
    return { name, sha256 };
  });
}
