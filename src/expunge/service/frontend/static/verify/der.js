// DER, as far as time stamps and their certificates need it: definite lengths in their shortest form, nothing left over.

const MAX_DEPTH = 24;
export const TAG = {
  ...{ boolean: 1, integer: 2, bits: 3, octets: 4, null: 5, oid: 6, enumerated: 10 },
  ...{ utcTime: 23, time: 24, sequence: 48, set: 49 },
};
// UTF-8, numeric, printable, teletex, IA5, universal and BMP strings.
const TEXTS = [12, 18, 19, 20, 22, 28, 30];

export class DerError extends Error {}

// One value that is all of the bytes. → { tag, body, raw, children }
export function parseDer(bytes) {
  const [node] = parseAll(bytes, 0);
  if (node === undefined || node.raw.length !== bytes.length) throw new DerError("not one value");
  return node;
}

function parseAll(bytes, depth) {
  if (depth > MAX_DEPTH) throw new DerError("nested too deep");
  const nodes = [];
  let at = 0;
  while (at < bytes.length) {
    const tag = bytes[at];
    if ((tag & 0x1f) === 0x1f) throw new DerError("a tag of several bytes");
    const { length, start } = lengthAt(bytes, at + 1);
    const end = start + length;
    if (end > bytes.length) throw new DerError("cut off");
    const body = bytes.subarray(start, end);
    const children = tag & 0x20 ? parseAll(body, depth + 1) : [];
    if (!isWellFormed(tag, body)) throw new DerError(`a value of tag ${tag}`);
    nodes.push({ tag, body, raw: bytes.subarray(at, end), children });
    at = end;
  }
  return nodes;
}

// What DER leaves open for values of the universal tags; those that no stamp has are refused.
function isWellFormed(tag, body) {
  if (tag & 0xc0 || tag === TAG.sequence || tag === TAG.set) return true;
  if (tag === TAG.integer || tag === TAG.enumerated) {
    const padded = body.length > 1 && ((body[0] === 0 && body[1] < 0x80) || (body[0] === 0xff && body[1] >= 0x80));
    return body.length > 0 && !padded;
  }
  if (tag === TAG.boolean) return body.length === 1 && [0, 0xff].includes(body[0]);
  if (tag === TAG.null) return body.length === 0;
  if (tag === TAG.bits) return body.length > 0 && body[0] < 8;
  if (tag === TAG.oid) return body.length > 0 && !(body.at(-1) & 0x80);
  return TEXTS.includes(tag) || [TAG.octets, TAG.utcTime, TAG.time].includes(tag);
}

function lengthAt(bytes, at) {
  const first = bytes[at];
  if (first === undefined) throw new DerError("cut off");
  if (first < 0x80) return { length: first, start: at + 1 };
  const size = first & 0x7f;
  const digits = bytes.subarray(at + 1, at + 1 + size);
  if (size === 0 || size > 4 || digits.length !== size || digits[0] === 0) throw new DerError("a length");
  const length = digits.reduce((total, digit) => total * 256 + digit, 0);
  if (length < 0x80) throw new DerError("a length that is too long");
  return { length, start: at + 1 + size };
}

// The value, if it has this tag; and so many parts at least, where it has any.
export function need(node, tag, parts = 0) {
  if (node?.tag !== tag || node.children.length < parts) throw new DerError(`not of tag ${tag}`);
  return node;
}

export function oidOf(node) {
  const { body } = need(node, TAG.oid);
  const numbers = [];
  let value = 0;
  for (const byte of body) {
    value = value * 128 + (byte & 0x7f);
    if (byte & 0x80) continue;
    numbers.push(value);
    value = 0;
  }
  if (!numbers.length || body.at(-1) & 0x80) throw new DerError("an object identifier");
  const root = Math.min(2, Math.floor(numbers[0] / 40));
  return [root, numbers[0] - 40 * root, ...numbers.slice(1)].join(".");
}

// Milliseconds since 1970 of a UTCTime or a GeneralizedTime.
export function timeOf(node) {
  const text = String.fromCharCode(...node.body);
  const short = node.tag === TAG.utcTime;
  const found = (short ? /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ : /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d+)?Z$/).exec(text);
  if (found === null || (!short && node.tag !== TAG.time)) throw new DerError("a time");
  const [year, ...rest] = found.slice(1, 7).map(Number);
  const century = short ? (year < 50 ? 2000 : 1900) : 0;
  const [month, day, hours, minutes, seconds] = rest;
  const time = Date.UTC(century + year, month - 1, day, hours, minutes, seconds);
  if (new Date(time).getUTCMonth() !== month - 1 || hours > 23 || minutes > 59 || seconds > 59) throw new DerError("a time");
  return time + (short || !found[7] ? 0 : Math.floor(Number(`0${found[7]}`) * 1000));
}
