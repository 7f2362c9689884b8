// Which bytes are a public key that a signature can depend on. Mirrors docs/formats/signing-key.md, "Points".

import { toHex } from "./encoding.js";
import { fail } from "./failure.js";

const number = (bytes) => BigInt(`0x${toHex(bytes)}`);
const modulo = (value, p) => ((value % p) + p) % p;

function power(base, exponent, p) {
  let result = 1n;
  for (let factor = modulo(base, p), rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * factor) % p;
    factor = (factor * factor) % p;
  }
  return result;
}

const P = 2n ** 255n - 19n;
const D = modulo(-121665n * power(121666n, P - 2n, P), P);

// Ed25519: canonical, not of small order, on the curve.
export function checkEdwards(raw) {
  const y = number(raw.slice().reverse()) & (2n ** 255n - 1n);
  const name = `the Ed25519 public key ${toHex(raw)}`;
  if (y >= P) fail("signing-key-not-canonical", `${name} is not canonical: y is not below 2^255 - 19`);
  const square = modulo(y * y, P);
  if (square <= 1n || modulo(D * square * square + 2n * square, P) === 1n) {
    fail("signing-key-small-order", `${name} is a point of small order: a signature under it proves nothing`);
  }
  if (power((square - 1n) * (D * square + 1n), (P - 1n) / 2n, P) !== 1n) {
    fail("signing-key-not-a-point", `${name} is not a point of the curve`);
  }
}

const Q = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;

// P-256: an uncompressed point, 65 bytes, on the curve. All of its points but one have the order of the group.
export function checkP256(raw) {
  const x = number(raw.subarray(1, 33));
  const y = number(raw.subarray(33));
  const on = x < Q && y < Q && modulo(y * y - x * x * x + 3n * x - B, Q) === 0n;
  if (raw[0] !== 4 || !on) fail("signing-key-not-a-point", `${toHex(raw)} is not a point of P-256`);
}
