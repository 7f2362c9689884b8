// Whether a leaf is about somebody: commitments opened with a text and the salt that was given with it.
// Mirrors docs/formats/store.md, "Ledger", and docs/formats/receipt.md.

import { fromHex, isSha256Hex, join, sha256, toHex, toUtf8 } from "./encoding.js";
import { EVENT_TYPE } from "./event.js";

export const isSalt = isSha256Hex;

export async function commitment(what, salt, text) {
  return toHex(await sha256(join(toUtf8(`expunge/${what}-commitment/v1\n`), fromHex(salt), toUtf8(text))));
}

// Which commitments of a statement this text and salt open: "subject", "case", "actor".
export async function opened({ type, subjects, predicate }, salt, text) {
  const [subject] = type === EVENT_TYPE ? subjects.filter(({ name }) => name === "subject") : [];
  const stated = { subject: subject?.sha256, case: predicate.request.case, actor: predicate.request.actor };
  const found = [];
  for (const [what, digest] of Object.entries(stated)) {
    if (digest && digest === (await commitment(what, salt, text))) found.push(what);
  }
  return found;
}
