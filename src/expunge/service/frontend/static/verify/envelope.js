// DSSE envelopes around in-toto statements. Mirrors docs/formats/envelope.md, "Verification", step by step.

import { checkFields, isObject, parseCanonical, parseJson, writeCanonical } from "./canonical.js";
import { fromAnyBase64, fromBase64, isSha256Hex, join, toBase64, toUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";
import { verifies } from "./signing.js";

export const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const MAX_ENVELOPE = 6 * 1024 * 1024;
const MAX_PAYLOAD = 4 * 1024 * 1024;
const MAX_SIGNATURES = 16;
const MAX_VALUES = 256;
const KEY_ID = /^SHA256:[A-Za-z0-9+/]{43}$/;

// Steps 1 to 3: the form of a leaf of the ledger. Nothing in the payload is looked at.
export function parseEnvelope(bytes) {
  return read(parseCanonical(bytes, MAX_ENVELOPE, MAX_VALUES), true);
}

// "Reading by the specification": an envelope that went through other hands.
export function readEnvelope(bytes) {
  const document = parseJson(bytes, MAX_ENVELOPE);
  if (!isObject(document)) return read(document, false);
  const known = knownFields(document, ["payload", "payloadType", "signatures"]);
  if ("payload" in known) known.payload = standard(known.payload);
  if (Array.isArray(known.signatures)) known.signatures = known.signatures.map(standardSignature);
  return read(known, false);
}

// The one spelling that is the leaf, where the envelope still has its key ids.
export const envelopeBytes = ({ payload, signatures }) =>
  toUtf8(
    writeCanonical({
      payload: toBase64(payload),
      payloadType: PAYLOAD_TYPE,
      signatures: signatures.map(({ keyId, signature }) => ({ keyid: keyId, sig: toBase64(signature) })),
    }),
  );

function knownFields(value, names) {
  return Object.fromEntries(names.filter((name) => name in value).map((name) => [name, value[name]]));
}

// Standard base64 of what is base64 in either alphabet; anything else as it is.
function standard(value) {
  const bytes = typeof value === "string" ? fromAnyBase64(value) : null;
  return bytes === null ? value : toBase64(bytes);
}

function standardSignature(item) {
  if (!isObject(item)) return item;
  const known = knownFields(item, ["keyid", "sig"]);
  known.keyid ??= "";
  if ("sig" in known) known.sig = standard(known.sig);
  return known;
}

function read(document, isLeaf) {
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
  return { payload, signatures: parseSignatures(document.signatures, isLeaf) };
}

function parseSignatures(value, isLeaf) {
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
    if (typeof keyId !== "string" || !(isLeaf ? KEY_ID.test(keyId) : keyId.isWellFormed()))
      fail("envelope-key-id-invalid", `${show(keyId)} is not the id of a key`);
    if (isLeaf && seen.has(keyId)) fail("envelope-duplicate-key-id", `two signatures are by key ${keyId}`);
    seen.add(keyId);
    const signature = typeof item.sig === "string" ? fromBase64(item.sig) : null;
    // An Ed25519 signature, or two numbers in DER.
    if (!(signature?.length >= 8 && signature.length <= 72)) {
      fail("envelope-signature-encoding-invalid", `the signature by ${keyId} is not base64 of 8 to 72 bytes`);
    }
    return { keyId, signature };
  });
}

// Steps 4 and 5: a trusted key signed; its id. Signatures that do not count do no harm. A key id is a hint: where it is
// missing or of another form than ours, every trusted key is tried.
export async function verifyEnvelope(envelope, trust) {
  const kind = toUtf8(PAYLOAD_TYPE);
  const head = toUtf8(`DSSEv1 ${kind.length} ${PAYLOAD_TYPE} ${envelope.payload.length} `);
  const message = join(head, envelope.payload);
  let wrong = null;
  for (const { keyId, signature } of envelope.signatures) {
    const named = trust.find((one) => one.keyId === keyId);
    for (const key of named ? [named] : KEY_ID.test(keyId) ? [] : trust)
      if (await verifies(key, signature, message)) return key.keyId;
    if (named) wrong = keyId;
  }
  if (wrong !== null) fail("envelope-signature-invalid", `the signature by key ${wrong} is not over this payload`);
  return fail("envelope-signer-unknown", "no signature on the envelope is by a trusted key");
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
