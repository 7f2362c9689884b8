// Whom a verifier trusts: keys that sign receipts and heads, witnesses, and roots of time-stamping authorities.

import { DerError } from "./der.js";
import { equal } from "./encoding.js";
import { fail } from "./failure.js";
import { isWitness, parseTrust, parseWitness } from "./signing.js";
import { pemCertificates } from "./x509.js";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----/g;

// Public keys, verifier keys and certificates, one after another in any order.
export async function readTrust(text) {
  const rest = text.replace(CERTIFICATE, " ");
  const words = rest.match(/-----BEGIN [^-]*-----[^-]*-----END [^-]*-----|[^ \t\r\n]+/g) ?? [];
  const [keys, watching] = [[], []];
  // One by one, so that the first that is wrong is the one that is named.
  for (const word of words) {
    if (isWitness(word)) watching.push(await parseWitness(word));
    else keys.push(...(await parseTrust(word)));
  }
  if (!keys.length) fail("signing-key-missing", "no key was given");
  checkNotOwn(watching, keys);
  return { keys, witnesses: watching, roots: authorities(text) };
}

// A ledger that cosigns with a key of its own, under whatever name, would watch itself.
export function checkNotOwn(witnesses, keys) {
  const own = witnesses.find((witness) => keys.some((key) => equal(key.raw, witness.raw)));
  if (own) fail("witness-is-log", `${own.origin} has a key of the ledger: a witness cosigns with a key of its own`);
}

function authorities(text) {
  try {
    return pemCertificates(text);
  } catch (error) {
    if (!(error instanceof DerError || error instanceof TypeError)) throw error;
    return fail("signing-key-malformed", "a certificate among the keys cannot be read");
  }
}
