// Strict RFC 8785 JSON without floats: a value is returned only if the bytes are its canonical form. And JSON in any
// spelling, for what others wrote down. Mirrors docs/formats/envelope.md; JSON.parse would let pass what is refused here.

import { fromUtf8 } from "./encoding.js";
import { fail, show } from "./failure.js";

const MAX_DEPTH = 32;
const MAX_VALUES = 200_000;
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

export function parseCanonical(bytes, limit, maxValues = MAX_VALUES) {
  const text = shaped(bytes, limit, maxValues);
  const value = new Parser(text, exactInteger).document();
  const canonical = writeCanonical(value);
  if (canonical !== text) {
    let at = 0;
    while (at < canonical.length && canonical[at] === text[at]) at += 1;
    fail("json-not-canonical", `not the RFC 8785 form of its value, from character ${at}`);
  }
  return value;
}

// JSON in any spelling, within the same limits. Two fields of one name are refused.
export const parseJson = (bytes, limit) => new Parser(shaped(bytes, limit, MAX_VALUES), (word) => Number(word)).document();

function shaped(bytes, limit, maxValues) {
  if (bytes.length > limit) fail("json-too-large", `${bytes.length} bytes of JSON exceed the limit of ${limit}`);
  const text = fromUtf8(bytes);
  if (text === null) fail("json-not-utf8", "the bytes are not UTF-8");
  checkShape(text, maxValues);
  return text;
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// Every field and no other; the first missing or unknown one is named.
export function checkFields(value, names, what, missing, unknown) {
  const known = new Set(names);
  const found = Object.keys(value);
  const absent = [...known].filter((name) => !found.includes(name)).sort();
  if (absent.length) fail(missing, `${what} has no ${absent[0]}`);
  const extra = found.filter((name) => !known.has(name)).sort();
  if (extra.length) fail(unknown, `${what} has an unknown field ${show(extra[0])}`);
}

// Too many values and deep nesting are refused before the recursive parser sees them.
function checkShape(text, maxValues) {
  const structure = text.replace(/"(?:[^"\\]|\\[^])*"?/g, "");
  const values = structure.match(/[,[{]/g)?.length ?? 0;
  if (values >= maxValues) fail("json-too-many-values", `more than ${maxValues} values`);
  let depth = 0;
  for (const bracket of structure.match(/[[\]{}]/g) ?? []) {
    depth += bracket === "[" || bracket === "{" ? 1 : -1;
    if (depth > MAX_DEPTH) fail("json-too-deep", `arrays and objects nest deeper than ${MAX_DEPTH}`);
  }
}

export function writeCanonical(value) {
  if (Array.isArray(value)) return `[${value.map(writeCanonical).join(",")}]`;
  if (isObject(value)) {
    // RFC 8785 orders by UTF-16 code units, which is how JavaScript compares strings.
    const names = Object.keys(value).sort();
    return `{${names.map((name) => `${writeCanonical(name)}:${writeCanonical(value[name])}`).join(",")}}`;
  }
  if (typeof value === "string" && !value.isWellFormed())
    fail("json-not-canonical", "a text in this value is not Unicode");
  return JSON.stringify(value);
}

function exactInteger(word) {
  if (!/^-?[0-9]+$/.test(word))
    fail("json-float-forbidden", `${word.slice(0, 40)} is a floating-point number; floats travel as hex strings`);
  const integer = Number(word);
  if (!Number.isSafeInteger(integer))
    fail("json-integer-out-of-range", `integer ${word.slice(0, 20)} is outside ±(2^53 - 1)`);
  return integer;
}

class Parser {
  constructor(text, numberOf) {
    this.text = text;
    this.numberOf = numberOf;
    this.at = 0;
  }

  document() {
    const value = this.value();
    this.space();
    if (this.at < this.text.length) this.wrong("something follows the value");
    return value;
  }

  wrong(why) {
    fail("json-syntax-invalid", `not JSON at character ${this.at}: ${why}`);
  }

  space() {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  take(expected) {
    this.space();
    if (this.text[this.at] !== expected) return false;
    this.at += 1;
    return true;
  }

  value() {
    this.space();
    const next = this.text[this.at];
    if (next === "{") return this.object();
    if (next === "[") return this.array();
    if (next === '"') return this.string();
    for (const [word, value] of [
      ["null", null],
      ["true", true],
      ["false", false],
    ]) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  number() {
    const constant = /(?:NaN|-?Infinity)/y;
    const spelling = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
    constant.lastIndex = spelling.lastIndex = this.at;
    const found = constant.exec(this.text) ?? spelling.exec(this.text);
    if (found === null) this.wrong("a value is missing");
    this.at += found[0].length;
    return this.numberOf(found[0]);
  }

  string() {
    let value = "";
    this.at += 1;
    for (;;) {
      const next = this.text[this.at];
      if (next === undefined) this.wrong("a string does not end");
      this.at += 1;
      if (next === '"') return value;
      if (next < " ") this.wrong("a control character in a string");
      value += next === "\\" ? this.escape() : next;
    }
  }

  escape() {
    const next = this.text[this.at];
    if (next === "u") {
      const digits = this.text.slice(this.at + 1, this.at + 5);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.wrong("a wrong \\u escape");
      this.at += 5;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    if (ESCAPES[next] === undefined) this.wrong("a wrong escape");
    this.at += 1;
    return ESCAPES[next];
  }

  array() {
    const items = [];
    this.at += 1;
    if (this.take("]")) return items;
    for (;;) {
      items.push(this.value());
      if (this.take("]")) return items;
      if (!this.take(",")) this.wrong("a comma is missing");
    }
  }

  object() {
    // Without a prototype, so that no key means anything but itself.
    const value = Object.create(null);
    const twice = [];
    this.at += 1;
    if (this.take("}")) return value;
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') this.wrong("a key is missing");
      const name = this.string();
      if (!this.take(":")) this.wrong("a colon is missing");
      const item = this.value();
      if (name in value) twice.push(name);
      value[name] = item;
      if (this.take("}")) break;
      if (!this.take(",")) this.wrong("a comma is missing");
    }
    if (twice.length) fail("json-duplicate-key", `an object has the key ${show(twice[0])} twice`);
    return value;
  }
}
