// The file format of an evidence bundle: a ZIP in its one form, a canonical manifest, arrays of known shapes.
// Mirrors docs/formats/evidence.md; nothing in a bundle is to be trusted before bundle.js has checked it.

import { checkFields, isObject, parseCanonical } from "./canonical.js";
import { equal, fromFloatHex, isSha256Hex, join, sha256, toHex, toUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";

const FORMAT = "expunge/evidence/v2";
const COLUMNS_FORMAT = "expunge/preprocessing/v1";
// Below it, a ZIP archive needs no extensions.
const MAX_EVIDENCE = 2 ** 31 - 1;
const MAX_MANIFEST = 64 * 1024;
const MAX_COLUMNS = 16 * 1024 * 1024;
const MAX_ROWS = 10 ** 8;
const LARGEST = 1e150;
const MANIFEST = "manifest.json";
const ARRAYS = ["keys", "values", "coefficients", "blinds", "commitments"].map((name) => `after/${name}.npy`);
const NEEDED = ["receipt.json", ...ARRAYS];
const OPTIONAL = [
  "before/commitments.npy",
  "before/coefficients.npy",
  "preprocessing.json",
  "proof.json",
  "inclusion.tlog-proof",
];
const KNOWN = [MANIFEST, ...NEEDED, ...OPTIONAL];
const LOCAL_SIZE = 30;
// The first representable day; owner may read and write; written on Unix by version 2.0.
const [EPOCH, MODE, MADE_BY, VERSION] = [33, 0o600 * 2 ** 16, 0x0314, 20];
const container = "evidence-container-invalid";

export async function parseBundle(bytes) {
  const members = readMembers(bytes);
  const manifest = parseCanonical(members.get(MANIFEST), MAX_MANIFEST);
  members.delete(MANIFEST);
  if (!isObject(manifest) || manifest.format !== FORMAT)
    fail("evidence-format-unsupported", `the manifest is not one of ${FORMAT}`);
  fields(manifest, "the manifest", ["format", "after", "before", "members"]);
  await checkMembers(members, manifest.members);
  const names = ["cap", "sigma", "offset", "entries", "dimension", "width", "weights"];
  const after = fields(manifest.after, "after", names);
  const size = whole(after.entries, "entries", 0);
  const [dimension, width] = ["dimension", "width"].map((name) => whole(after[name], name));
  return {
    receipt: members.get("receipt.json"),
    cap: positive(after.cap, "cap"),
    sigma: positive(after.sigma, "sigma"),
    offset: float(after.offset, "offset"),
    size,
    dimension,
    keys: floats(members, "after/keys.npy", [size, dimension]),
    values: floats(members, "after/values.npy", [size, width]),
    coefficients: floats(members, "after/coefficients.npy", [size]),
    blinds: digests(members, "after/blinds.npy", size),
    commitments: digests(members, "after/commitments.npy", size),
    weights: digest(after.weights, "weights"),
    preprocessing: preprocessing(members, dimension, width),
    prior: prior(manifest.before, members),
    proof: members.get("proof.json") ?? null,
    inclusion: members.get("inclusion.tlog-proof") ?? null,
  };
}

// Files of the archive by name. The directory at its end must be the one that the files call for.
function readMembers(bytes) {
  if (bytes.length > MAX_EVIDENCE)
    fail("evidence-too-large", `${bytes.length} bytes exceed the limit of ${MAX_EVIDENCE}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const members = new Map();
  const directory = [];
  let at = 0;
  while (equal(bytes.subarray(at, at + 4), Uint8Array.of(0x50, 0x4b, 0x03, 0x04))) {
    if (bytes.length - at < LOCAL_SIZE || members.size > NEEDED.length + OPTIONAL.length)
      fail(container, "the archive is cut off, or has too many files");
    const fixed = [4, 6, 8, 10, 12].map((offset) => view.getUint16(at + offset, true));
    const [crc, packed, size] = [14, 18, 22].map((offset) => view.getUint32(at + offset, true));
    const [length, extra] = [26, 28].map((offset) => view.getUint16(at + offset, true));
    const start = at + LOCAL_SIZE + length;
    const [name, content] = [bytes.subarray(at + LOCAL_SIZE, start), bytes.subarray(start, start + size)];
    const plain = [VERSION, 0, 0, 0, EPOCH].every((value, index) => fixed[index] === value);
    if (!plain || packed !== size || extra || content.length !== size)
      fail(container, `file ${members.size} of the archive is not stored plainly`);
    if (crc32(content) !== crc) fail(container, `file ${members.size} of the archive is damaged`);
    directory.push(central(crc, size, length, at), name);
    members.set(memberName(name, [...members.keys()]), content);
    at = start + size;
  }
  const listed = join(...directory);
  if (!equal(bytes.subarray(at), join(listed, end(members.size, listed.length, at))))
    fail(container, "the archive's directory is not that of its files");
  if (!members.has(MANIFEST)) fail("evidence-member-missing", `there is no ${MANIFEST}`);
  return members;
}

// Numbers of 2 or 4 bytes, the least significant first.
function pack(signature, ...parts) {
  const numbers = parts.flatMap(([size, ...values]) => values.map((value) => [size, value]));
  const view = new DataView(new ArrayBuffer(numbers.reduce((total, [size]) => total + size, 4)));
  view.setUint32(0, signature, true);
  let at = 4;
  for (const [size, value] of numbers) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

const central = (crc, size, length, at) =>
  pack(0x02014b50, [2, MADE_BY, VERSION, 0, 0, 0, EPOCH], [4, crc, size, size], [2, length, 0, 0, 0, 0], [4, MODE, at]);

const end = (count, size, at) => pack(0x06054b50, [2, 0, 0, count, count], [4, size, at], [2, 0]);

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

function crc32(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = CRC_TABLE[(value ^ byte) & 0xff] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

function memberName(bytes, before) {
  const name = String.fromCharCode(...bytes.subarray(0, 80));
  if (bytes.length > 80 || !KNOWN.includes(name))
    fail("evidence-member-unknown", `${show(name)} does not belong in a bundle`);
  const first = before.length === 0;
  if ((name === MANIFEST) !== first || (before.length > 1 && name <= before.at(-1)))
    fail(container, `${name} is not in its place in the archive`);
  return name;
}

async function checkMembers(members, listed) {
  if (!isObject(listed) || !Object.values(listed).every(isSha256Hex))
    fail("evidence-field-invalid", "members is not an object of digests");
  const missing = [...NEEDED, ...Object.keys(listed)].filter((name) => !members.has(name)).sort();
  if (missing.length) fail("evidence-member-missing", `there is no ${show(missing[0])}`);
  const unknown = [...members.keys()].filter((name) => !Object.hasOwn(listed, name)).sort();
  if (unknown.length) fail("evidence-member-unknown", `the manifest does not list ${unknown[0]}`);
  for (const [name, content] of members) {
    if (toHex(await sha256(content)) !== listed[name])
      fail("evidence-member-mismatch", `${name} does not have the digest that the manifest lists`);
  }
}

function prior(value, members) {
  checkPresence(members, "before/commitments.npy", value !== null);
  if (value === null) {
    checkPresence(members, "before/coefficients.npy", false);
    return null;
  }
  const item = fields(value, "before", ["cap", "sigma", "offset", "entries", "weights"]);
  const size = whole(item.entries, "entries", 0);
  const shown = item.offset !== null;
  checkPresence(members, "before/coefficients.npy", shown);
  return {
    cap: positive(item.cap, "cap"),
    sigma: positive(item.sigma, "sigma"),
    size,
    commitments: digests(members, "before/commitments.npy", size),
    weights: digest(item.weights, "weights"),
    offset: shown ? float(item.offset, "offset") : null,
    coefficients: shown ? floats(members, "before/coefficients.npy", [size]) : null,
  };
}

// The bytes of the columns, checked one by one: the digest of a state has theirs.
function preprocessing(members, dimension, width) {
  const content = members.get("preprocessing.json") ?? null;
  if (content === null) return null;
  const item = parseCanonical(content, MAX_COLUMNS);
  if (!isObject(item) || item.format !== COLUMNS_FORMAT)
    fail("evidence-format-unsupported", `the columns are not of ${COLUMNS_FORMAT}`);
  fields(item, "preprocessing", ["format", "keys", "learned", "values"]);
  if (typeof item.learned !== "boolean") fail("evidence-field-invalid", "learned is not true or false");
  checkColumns(item.keys, "keys", dimension);
  checkColumns(item.values, "values", width);
  return content;
}

function checkColumns(listed, what, count) {
  if (!Array.isArray(listed) || listed.length !== count)
    fail("evidence-field-invalid", `there is not one column per coordinate of the ${what}`);
  listed.forEach((value, place) => {
    const at = `column ${place} of the ${what}`;
    const item = fields(value, at, ["name", "unit", "centre", "scale", "fill"]);
    if (typeof item.name !== "string" || !(item.unit === null || typeof item.unit === "string"))
      fail("evidence-field-invalid", `name or unit of ${at} is not a text`);
    if (item.fill !== null) float(item.fill, `the fill of ${at}`);
    float(item.centre, `the centre of ${at}`);
    positive(item.scale, `the scale of ${at}`);
  });
}

function checkPresence(members, name, needed) {
  if (needed && !members.has(name)) fail("evidence-member-missing", `there is no ${name}`);
  if (!needed && members.has(name))
    fail("evidence-member-unknown", `the manifest says nothing that calls for ${name}`);
}

// The bytes of the numbers, checked one by one.
function floats(members, name, shape) {
  const content = array(members.get(name), name, "<f8", shape);
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  for (let at = 0; at < content.length; at += 8) {
    if (!(Math.abs(view.getFloat64(at, true)) <= LARGEST))
      fail("evidence-array-invalid", `${name} holds a number that is not finite, or too large`);
  }
  return content;
}

const digests = (members, name, size) => array(members.get(name), name, "|u1", [size, 32]);

// The data of a NPY 1.0 file, whose header must be the one for this type and shape.
function array(content, name, kind, shape) {
  const spelled = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  let text = `{'descr': '${kind}', 'fortran_order': False, 'shape': ${spelled}}`;
  text += `${" ".repeat((64 - ((10 + text.length + 1) % 64)) % 64)}\n`;
  const size = Uint8Array.of(text.length & 0xff, text.length >> 8);
  const header = join(Uint8Array.of(0x93), toUtf8("NUMPY"), Uint8Array.of(1, 0), size, toUtf8(text));
  if (!equal(content.subarray(0, header.length), header))
    fail("evidence-array-malformed", `${name} is not an array of ${kind} with shape ${spelled}`);
  const data = content.subarray(header.length);
  if (data.length !== shape.reduce((product, length) => product * length, Number(kind.at(-1)))) {
    fail(
      "evidence-array-malformed",
      `${name} has ${data.length} bytes of data, which shape ${spelled} does not`,
    );
  }
  return data;
}

function fields(value, what, names) {
  if (!isObject(value)) fail("evidence-field-invalid", `${what} is not an object`);
  checkFields(value, names, what, "evidence-field-missing", "evidence-field-unknown");
  return value;
}

function whole(value, what, least = 1) {
  if (!Number.isSafeInteger(value) || value < least || value > MAX_ROWS)
    fail("evidence-field-invalid", `${what} is not a number from ${least} to ${MAX_ROWS}`);
  return value;
}

function float(value, what) {
  const number = typeof value === "string" ? fromFloatHex(value) : null;
  if (number === null || !(Math.abs(number) <= LARGEST))
    fail("evidence-field-invalid", `${what} is not the hexadecimal spelling of a finite number`);
  return number;
}

function positive(value, what) {
  const number = float(value, what);
  if (!(number >= 1 / LARGEST)) fail("evidence-field-invalid", `${what} is not a positive number`);
  return number;
}

function digest(value, what) {
  if (!isSha256Hex(value)) fail("evidence-field-invalid", `${what} is not a digest`);
  return value;
}
