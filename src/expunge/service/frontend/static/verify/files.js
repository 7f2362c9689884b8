// What a file is, told from its first bytes and its form: people rename files, and mail programs do too.

import { fromUtf8, join, toUtf8 } from "./encoding.js";

export const KINDS = {
  certificate: "certificate",
  document: "certificate (HTML)",
  pdf: "certificate (PDF)",
  bundle: "evidence bundle",
  envelope: "receipt",
  ledger: "whole ledger",
  proof: "proof of inclusion",
  extension: "proof that the ledger grew",
  head: "signed head",
  stamp: "time stamp",
  keys: "public key",
  unknown: "not recognised",
};

const startsWith = (bytes, text) => toUtf8(text).every((byte, at) => bytes[at] === byte);

export function recognise(bytes) {
  if (startsWith(bytes, "PK\x03\x04")) return "bundle";
  if (startsWith(bytes, "%PDF-")) return "pdf";
  if (bytes[0] === 0x30 && bytes[1] & 0x80) return "stamp";
  const text = fromUtf8(bytes);
  if (text === null) return "unknown";
  const trimmed = text.replace(/^[\ufeff \t\r\n]+/, "");
  if (/^<(!doctype|html)/i.test(trimmed)) return "document";
  if (/^-----BEGIN (PUBLIC KEY|CERTIFICATE)-----/.test(trimmed)) return "keys";
  if (trimmed.startsWith("c2sp.org/tlog-proof@")) return "proof";
  if (/^old [0-9]/.test(trimmed)) return "extension";
  if (/^[^+\s]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+\s*$/.test(trimmed)) return "keys";
  if (trimmed.startsWith("{")) return ofJson(trimmed);
  return text.includes("\n\n— ") ? "head" : "unknown";
}

function ofJson(text) {
  // An envelope may have been written anew over several lines.
  if (!text.startsWith('{"payload"') && isOneEnvelope(text)) return "envelope";
  if (/^[^\n]*"urn:expunge:certificate:/.test(text) && !text.startsWith('{"payload"')) return "certificate";
  return /\n\s*\{/.test(text) ? "ledger" : "envelope";
}

function isOneEnvelope(text) {
  try {
    return Object.hasOwn(JSON.parse(text), "payloadType");
  } catch {
    return false;
  }
}

// The lines of a ledger, each the bytes of one leaf.
export function ledgerLines(bytes) {
  const lines = [];
  let from = 0;
  while (from < bytes.length) {
    const found = bytes.indexOf(10, from);
    const end = found < 0 ? bytes.length : found;
    lines.push(bytes.subarray(from, end));
    from = end + 1;
  }
  return lines;
}

// What editors and mail programs put around a line is not part of it.
export function trimmed(bytes) {
  const isSpace = (byte) => [9, 10, 13, 32].includes(byte);
  let [from, to] = [0, bytes.length];
  while (from < to && isSpace(bytes[from])) from += 1;
  while (to > from && isSpace(bytes[to - 1])) to -= 1;
  return bytes.subarray(from, to);
}

// Text areas and mail programs change the end of a text, or of its lines; a note has exactly one final newline.
export function asFile(bytes) {
  const text = fromUtf8(bytes);
  return text === null ? bytes : join(toUtf8(text.replaceAll("\r\n", "\n").replace(/\n*$/, "")), toUtf8("\n"));
}
