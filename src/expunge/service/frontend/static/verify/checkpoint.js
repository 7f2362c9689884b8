// Signed log heads: C2SP signed notes whose text is an origin, a size and a root. Mirrors docs/formats/checkpoint.md.
// Cosignatures are lines by keys that are not trusted here, and are ignored as the specification says.

import { equal, fromBase64, fromDecimal, fromUtf8, toUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";
import { isKeyName, noteKeyId, verifies } from "./signing.js";

const MAX_NOTE = 256 * 1024;
const MAX_SIGNATURES = 64;
const MAX_EXTENSIONS = 16;
const CONTROL = /[\x00-\x09\x0b-\x1f]/;
const isLine = (text) => text !== "" && !CONTROL.test(text) && !text.includes("\n");

export function parseNote(bytes) {
  if (bytes.length > MAX_NOTE) fail("note-too-large", `a note of ${bytes.length} bytes exceeds the limit of ${MAX_NOTE}`);
  const content = fromUtf8(bytes);
  if (content === null) fail("note-not-utf8", "the note is not UTF-8");
  if (CONTROL.test(content)) fail("note-control-character", "the note has a control character");
  if (!content.endsWith("\n")) fail("note-unterminated", "the note does not end in a newline");
  const at = content.lastIndexOf("\n\n");
  if (at < 0) fail("note-separator-missing", "no empty line separates the note's text from its signatures");
  const lines = content
    .slice(at + 2)
    .split("\n")
    .slice(0, -1);
  if (lines.length === 0) fail("note-unsigned", "the note has no signature line");
  if (lines.length > MAX_SIGNATURES) {
    fail("note-too-many-signatures", `${lines.length} signature lines exceed the limit of ${MAX_SIGNATURES}`);
  }
  return { text: toUtf8(content.slice(0, at + 1)), signatures: lines.map(parseLine) };
}

function parseLine(line) {
  const [, name, encoded] = /^— ([^ ]*) (.*)$/s.exec(line) ?? [];
  if (name === undefined) fail("note-signature-line-malformed", `${show(line)} is not a signature line`);
  if (!isKeyName(name)) fail("note-key-name-invalid", `${show(name)} is not a key name`);
  const blob = fromBase64(encoded);
  if (blob === null || blob.length <= 4) {
    fail("note-signature-encoding-invalid", `the signature by ${name} is not base64 of key id and signature`);
  }
  return { name, keyId: blob.subarray(0, 4), signature: blob.slice(4) };
}

// Returns the head after its signature, and its origin where the trusted key names one, have been checked.
export async function verifyCheckpoint(note, trust) {
  // A PEM key does not say what the log is called; then it must be called what the head says.
  const name = trust.find((key) => key.origin !== null)?.origin ?? fromUtf8(note.text).split("\n")[0];
  let signed = false;
  for (const key of trust) {
    if (key.algorithm !== "ed25519" || (key.origin ?? name) !== name) continue;
    const id = await noteKeyId(name, key.raw);
    for (const line of note.signatures) {
      if (line.name !== name || !equal(line.keyId, id)) continue;
      if (line.signature.length !== 64 || !(await verifies(key, line.signature, note.text))) {
        fail("note-signature-invalid", `the signature by ${name} is not over this text`);
      }
      signed = true;
    }
  }
  if (!signed) fail("note-signer-unknown", "no signature on the note is by a trusted key");
  const head = parseCheckpoint(note.text);
  if (head.origin !== name)
    fail("checkpoint-origin-mismatch", `this is a head of ${show(head.origin)}, not of ${show(name)}`);
  return head;
}

export function parseCheckpoint(text) {
  const lines = fromUtf8(text).split("\n");
  if (lines.length < 4 || lines.at(-1) !== "") {
    fail("checkpoint-lines-missing", "a checkpoint has an origin, a size and a root, each on a line");
  }
  const [origin, sizeLine, rootLine, ...extensions] = lines.slice(0, -1);
  if (!isLine(origin))
    fail("checkpoint-origin-invalid", "the origin of the checkpoint is empty or has a control character");
  const size = fromDecimal(sizeLine);
  if (size === null) fail("checkpoint-size-invalid", `${show(sizeLine)} is not a tree size`);
  const root = fromBase64(rootLine);
  if (root?.length !== 32) fail("checkpoint-root-invalid", `${show(rootLine)} is not a root hash`);
  if (extensions.length > MAX_EXTENSIONS || !extensions.every(isLine)) {
    fail("checkpoint-extension-invalid", "an extension line is empty or has a control character, or there are too many");
  }
  return { origin, size, root };
}
