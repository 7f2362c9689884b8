// One spelling a value: base64, decimals, hexadecimal floats. Decoders return null for any other spelling.
// Mirrors docs/formats/envelope.md, "Canonical JSON", and docs/formats/checkpoint.md, "Note".

const encoder = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const toUtf8 = (text) => encoder.encode(text);

export function fromUtf8(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

export function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

export function fromBase64(text) {
  // atob forgives white space and missing padding; nonzero bits before the padding come out in the comparison.
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  let raw;
  try {
    raw = atob(text);
  } catch {
    return null;
  }
  const bytes = Uint8Array.from(raw, (character) => character.charCodeAt(0));
  return toBase64(bytes) === text ? bytes : null;
}

// Base64 in the standard or in the URL-safe alphabet, as RFC 4648 has it: padded, whatever the bits before the padding.
export function fromAnyBase64(text) {
  const usual = text.replaceAll("-", "+").replaceAll("_", "/");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(usual) || usual.length % 4) return null;
  return Uint8Array.from(atob(usual), (character) => character.charCodeAt(0));
}

export function fromDecimal(text) {
  if (!/^(0|[1-9][0-9]{0,18})$/.test(text)) return null;
  const number = BigInt(text);
  return number < 2n ** 63n ? number : null;
}

export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

export const isSha256Hex = (text) => typeof text === "string" && /^[0-9a-f]{64}$/.test(text);

// C99 %a as Python's float.hex writes it.
export function toFloatHex(number) {
  if (number === Infinity) return "inf";
  if (number === -Infinity) return "-inf";
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  const bits = view.getBigUint64(0);
  const sign = bits >> 63n ? "-" : "";
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const mantissa = bits & 0xfffffffffffffn;
  if (exponent === 0 && mantissa === 0n) return `${sign}0x0.0p+0`;
  const power = exponent === 0 ? -1022 : exponent - 1023;
  return `${sign}0x${exponent === 0 ? 0 : 1}.${mantissa.toString(16).padStart(13, "0")}p${power < 0 ? "" : "+"}${power}`;
}

export function fromFloatHex(text) {
  if (text === "inf") return Infinity;
  if (text === "-inf") return -Infinity;
  if (text === "0x0.0p+0") return 0;
  if (text === "-0x0.0p+0") return -0;
  const parts = /^(-?)0x([01])\.([0-9a-f]{13})p([+-][0-9]{1,4})$/.exec(text);
  if (parts === null) return null;
  const power = Number(parts[4]);
  if (power < -1022 || power > 1023) return null;
  // Both factors and the product are exact: 53 bits, and a power of two in two steps that cannot underflow early.
  const magnitude = Number(BigInt(`0x${parts[2]}${parts[3]}`)) * 2 ** -52 * 2 ** power;
  const number = parts[1] ? -magnitude : magnitude;
  return toFloatHex(number) === text ? number : null;
}

export function join(...parts) {
  const whole = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export const equal = (one, other) => one.length === other.length && one.every((byte, at) => byte === other[at]);

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
