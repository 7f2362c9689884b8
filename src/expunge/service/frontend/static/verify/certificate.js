// Certificate documents: a leaf with its proof, the leaves that it counts, and texts that open its commitments.
// Mirrors docs/formats/certificate.md, "Verification". Of HTML the page is compared with the data; of a PDF it is not.

import { isObject, parseCanonical } from "./canonical.js";
import { escapeText, mainOf, pageOf, TEMPLATE, WORDS } from "./certificate_page.js";
import { parseCheckpoint, verifyCheckpoint } from "./checkpoint.js";
import { equal, fromBase64, fromUtf8, isSha256Hex, join, sha256, toBase64, toHex, toUtf8 } from "./encoding.js";
import { parseEnvelope, parseStatement, verifyEnvelope } from "./envelope.js";
import { ERASED, EVENT_TYPE, parseEvent } from "./event.js";
import { fail } from "./failure.js";
import { isUuid } from "./fields.js";
import { leafHash, verifyInclusion } from "./merkle.js";
import { parseInclusionProof } from "./proof.js";
import { parseReceipt, RECEIPT_TYPE } from "./receipt.js";
import { commitment } from "./revealed.js";

const FORMAT = "urn:expunge:certificate:v1";
const MAX_DATA = 16 * 1024 * 1024;
const MAX_FILE = 2 * MAX_DATA;
const MAX_TEXT = 120;
const MAX_STAMPS = 8;
const MAX_STAMP = 64 * 1024;
const REVEALABLE = ["subject", "case", "actor"];
const HTML_DATA = /<script id="data" type="text\/plain"[^<>]*>([A-Za-z0-9+/=]*)<\/script>/g;
const QR_CODE = /viewBox="0 0 ([1-9][0-9]{1,2}) \1"><path d="([Mhvz0-9 -]*)">/;
const PDF_STREAM = /\/Type \/EmbeddedFile(?!s)([ -~]{0,1000}?)>>[ \t\n\r\f\v]*stream\r?\n/g;
const PDF_LENGTH = /\/Length ([0-9]{1,9})(?![0-9 ]* R)/;
// Nothing that cannot be seen, but for joiners, which some names need.
const SHOWN = /^(?:[\u200c\u200d]|[^\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}])+$/u;
const invalid = "certificate-data-invalid";
const otherPage = "certificate-page-mismatch";
const OTHER_PAGE = "the page is not the one that the signed data make: go by the data, not by what is shown";

// The data of a document, from its HTML or from the attachment of its PDF.
export async function findData(bytes) {
  if (bytes.length > MAX_FILE) fail(invalid, `the file has more than ${MAX_FILE} bytes`);
  const text = latin1(bytes);
  if (text.startsWith("%PDF-")) return attachment(bytes, text);
  const found = [...text.matchAll(HTML_DATA)];
  if (found.length !== 1)
    fail("certificate-data-missing", `the file has ${found.length} blocks of data, not 1: it is no certificate of expunge`);
  return fromBase64(found[0][1]) ?? fail(invalid, "the data are not base64");
}

// A character for every byte.
function latin1(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return text;
}

async function attachment(bytes, text) {
  const found = [...text.matchAll(PDF_STREAM)];
  if (found.length !== 1)
    fail("certificate-data-missing", `the PDF has ${found.length} attachments that can be read here, not 1`);
  const [[whole, entries]] = found;
  const length = PDF_LENGTH.exec(entries)?.[1];
  if (length === undefined) fail(invalid, "the attachment has no length");
  const start = found[0].index + whole.length;
  const stream = bytes.subarray(start, start + Number(length));
  if (!entries.includes("/Filter")) return stream;
  const data = entries.includes("/FlateDecode") ? await inflated(stream) : null;
  return data ?? fail(invalid, "the attachment cannot be unpacked");
}

async function inflated(stream) {
  const reader = new Blob([stream]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const parts = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return join(...parts);
      size += value.length;
      if (size > MAX_DATA) return null;
      parts.push(value);
    }
  } catch {
    return null;
  }
}

// Reads the data strictly, and what the leaves state; no signature is looked at.
export async function readCertificate(data) {
  const document = parseCanonical(data, MAX_DATA);
  if (!isObject(document) || document.format !== FORMAT)
    fail("certificate-format-unsupported", `the data are not of the format ${FORMAT}`);
  const fields = ["counted", "format", "leaf", "names", "revealed", "timestamps"];
  const { names, revealed, counted, timestamps, copies = null } = isObject(document) ? document : {};
  need(has(document, copies === null ? fields : ["copies", ...fields]), "the document");
  need(copies === null || (Array.isArray(copies) && copies.length > 0), "copies");
  need(isObject(names) && Object.entries(names).every(([uuid, name]) => isUuid(uuid) && isShown(name)), "names");
  need(isObject(revealed) && has(revealed, REVEALABLE), "revealed");
  need(Array.isArray(counted) && Array.isArray(timestamps) && timestamps.length <= MAX_STAMPS, "timestamps");
  for (const what of REVEALABLE) need(revealed[what] === null || isRevealed(revealed[what]), "what is revealed");
  const proved = [document.leaf, ...counted].map(parseProved);
  const stamps = timestamps.map(parseStamp);
  const mirrored = (copies ?? []).map(parseProved).map(openLeaf);
  const [leaf, ...others] = proved.map(openLeaf);
  checkKind(leaf);
  if ([...others, ...mirrored].some((other) => !isSameNote(other.proof.note, leaf.proof.note)))
    fail("certificate-head-mismatch", "the proofs lead to different heads");
  checkCounted(leaf, others);
  checkCopies([leaf, ...others], mirrored);
  await checkRevealed(leaf, revealed);
  const known = leaf.summary ? leaf.summary.map(({ memory }) => memory) : [leaf.stated.memory];
  const unknown = Object.keys(names).find((uuid) => !known.includes(uuid));
  if (unknown) fail("certificate-name-unknown", `memory ${unknown} is named and is not in the document`);
  return { leaf, counted: others, copies: mirrored, names, revealed, stamps };
}

// Every leaf signed by a trusted key, and in the ledger under a signed head.
export async function verifyCertificate({ leaf, counted, copies }, trust, checkNote) {
  for (const part of [leaf, ...counted, ...copies]) {
    await verifyEnvelope(part.envelope, trust.keys);
    const head = await verifyCheckpoint(part.proof.note, trust.keys);
    await verifyInclusion(await leafHash(part.bytes), part.proof.index, head.size, part.proof.path, head.root);
    await checkNote(part.proof.note);
  }
  return parseCheckpoint(leaf.proof.note.text);
}

// Of HTML: every byte of the file must be the one that the data make. The QR code is taken from the file as it is.
export async function comparePage(bytes, data) {
  const drawn = QR_CODE.exec(latin1(bytes));
  if (drawn === null) fail(otherPage, "the page has no QR code");
  const page = pageOf(JSON.parse(fromUtf8(data)), WORDS);
  const main = mainOf(page, [drawn[1], drawn[2]], WORDS);
  const encoded = toBase64(data);
  const varying = [escapeText(page.title), main, await digest(encoded), await digest(main), encoded];
  const fixed = [];
  let at = 0;
  for (const [number, length] of TEMPLATE.lengths.entries()) {
    fixed.push(bytes.subarray(at, at + length));
    at += length;
    const wanted = toUtf8(varying[number] ?? "");
    if (!equal(bytes.subarray(at, at + wanted.length), wanted)) fail(otherPage, OTHER_PAGE);
    at += wanted.length;
  }
  if (at !== bytes.length || toHex(await sha256(join(...fixed))) !== TEMPLATE.sha256) fail(otherPage, OTHER_PAGE);
}

const digest = async (text) => toHex(await sha256(toUtf8(text)));

function openLeaf({ envelope, inclusion }) {
  const bytes = toUtf8(envelope);
  const opened = parseEnvelope(bytes);
  const statement = parseStatement(opened.payload);
  const proof = parseInclusionProof(toUtf8(inclusion));
  if (![EVENT_TYPE, RECEIPT_TYPE].includes(statement.type))
    fail("certificate-leaf-unsupported", "a leaf of this type is no edit");
  const isEvent = statement.type === EVENT_TYPE;
  const stated = isEvent ? parseEvent(statement) : parseReceipt(statement);
  const summary = isEvent && stated.event === "subject_erased" ? stated.facts.memories : null;
  return { bytes, envelope: opened, statement, proof, isEvent, stated, summary };
}

function checkKind({ isEvent, stated }) {
  const fits = isEvent ? ["dropped", "subject_erased"].includes(stated.event) : stated.action !== "expiry";
  if (!fits) fail("certificate-leaf-unsupported", "a certificate is about an edit, a drop, or the erasure of a subject");
}

function checkCounted({ summary }, others) {
  const error = "certificate-counted-mismatch";
  const wanted = new Map((summary ?? []).filter(({ leaf }) => leaf !== null).map((part) => [BigInt(part.leaf), part]));
  const due = [...wanted.keys()].sort((one, other) => (one < other ? -1 : 1));
  const found = others.map(({ proof }) => proof.index);
  if (due.join() !== found.join()) fail(error, `the summary counts leaves ${due}, and the document has ${found}`);
  for (const { isEvent, stated, proof } of others) {
    const part = wanted.get(proof.index);
    const same =
      !isEvent &&
      stated.action === "deletion" &&
      stated.memory === part.memory &&
      stated.outcome === part.outcome &&
      stated.applied.count === part.entries;
    if (!same) fail(error, `leaf ${proof.index} is not what the summary says of it`);
  }
}

// Leaves about mirrors are in order, each of a mirror that was to follow, and count what the erasures do.
function checkCopies(leaves, copies) {
  const erasures = new Map();
  for (const { isEvent, stated, proof } of leaves) {
    if (!isEvent && ERASED.includes(stated.outcome)) erasures.set(proof.index, [stated.memory, stated.applied.count]);
    else if (isEvent && stated.event === "dropped")
      erasures.set(proof.index, [stated.memory, stated.facts.live + stated.facts.pruned]);
  }
  const mirrors = new Map();
  const found = new Set();
  let last = -1n;
  for (const { isEvent, statement, stated, proof } of copies) {
    const { index } = proof;
    if (!isEvent || index <= last || !fitsMirror(statement.subjects[0].sha256, stated, index, mirrors, found, erasures))
      fail("certificate-copies-mismatch", `leaf ${index} is about no mirror that was to follow these erasures`);
    last = index;
  }
}

function fitsMirror(name, { event, facts }, index, mirrors, found, erasures) {
  const covers = (of, memory) => [null, memory].includes(of);
  if (event === "mirror_added") {
    const fresh = !mirrors.has(name);
    mirrors.set(name, { since: index, of: facts.of });
    return fresh && [...erasures].some(([at, [memory]]) => at > index && covers(facts.of, memory));
  }
  if (event !== "mirror_checked" || !mirrors.has(name)) return false;
  const { since, of } = mirrors.get(name);
  const about = facts.findings.filter(({ leaf }) => erasures.has(BigInt(leaf)));
  const fits = about.every(({ leaf, entries }) => {
    const at = BigInt(leaf);
    const [memory, count] = erasures.get(at);
    return since < at && at < index && covers(of, memory) && entries === count && !found.has(`${name} ${at}`);
  });
  for (const { leaf } of about) found.add(`${name} ${leaf}`);
  return about.length > 0 && fits;
}

async function checkRevealed({ statement, stated, summary, proof }, revealed) {
  const digests = {
    subject: summary === null ? null : statement.subjects[0].sha256,
    case: stated.request.case,
    actor: stated.request.actor,
  };
  for (const what of REVEALABLE) {
    if (revealed[what] === null) continue;
    const { salt, text } = revealed[what];
    if ((await commitment(what, salt, text)) !== digests[what])
      fail(`certificate-${what}-mismatch`, `leaf ${proof.index} does not commit to this ${what} under this salt`);
  }
}

const has = (value, names) =>
  isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));

function need(valid, what) {
  if (!valid) fail("certificate-field-invalid", `${what} is not as the format has it`);
}

function parseProved(value) {
  need(has(value, ["envelope", "inclusion"]), "a leaf");
  need(typeof value.envelope === "string" && typeof value.inclusion === "string", "a leaf");
  return value;
}

function parseStamp(value) {
  const bytes = typeof value === "string" ? fromBase64(value) : null;
  need(bytes !== null && bytes.length > 0 && bytes.length <= MAX_STAMP, "a time stamp");
  return bytes;
}

const isRevealed = (value) => has(value, ["salt", "text"]) && isSha256Hex(value.salt) && isShown(value.text);

const isShown = (value) =>
  typeof value === "string" && [...value].length <= MAX_TEXT && value.isWellFormed() && SHOWN.test(value);

function isSameNote(one, other) {
  const lines = ({ signatures }) => signatures.map((line) => [line.name, line.keyId, line.signature].join());
  return fromUtf8(one.text) === fromUtf8(other.text) && equal(lines(one), lines(other));
}
