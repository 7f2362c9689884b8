// The ledger's signed head, kept by this browser: a later head must extend it, or the history was rewritten.
// The key is pinned when it is first seen. Both are public; nothing of an entry is kept.

import { h, replace } from "../element.js";
import { moment, plural } from "../numbers.js";
import { get, session } from "../session.js";
import { parseCheckpoint, parseNote, verifyCheckpoint } from "../verify/checkpoint.js";
import { toUtf8 } from "../verify/encoding.js";
import { fail, VerificationError } from "../verify/failure.js";
import { verifyExtension } from "../verify/proof.js";
import { unsupportedReason, parseTrust } from "../verify/signing.js";

const storageKey = () => `expunge.head.${session.about.store}`;

export function keptHead() {
  try {
    return JSON.parse(localStorage.getItem(storageKey()));
  } catch {
    return null;
  }
}

// The key that this browser holds heads of the store to: the one it saw first.
export const pinnedKey = () => keptHead()?.key ?? session.about.log_key;

// Every key that the store has or had, for receipts and for heads, one after another.
export const storeKeys = () => session.about.keys.map(({ key }) => key.trim()).join("\n");

async function compare() {
  const kept = keptHead();
  if (kept === null) {
    const { note } = await get("/v1/log/checkpoint");
    const head = await verifyCheckpoint(parseNote(toUtf8(note)), await parseTrust(session.about.log_key));
    keep(note, head.size, session.about.log_key);
    return `${plural(head.size, "leaf", "leaves")}, signed. This browser keeps the head from now on: it will notice if history is rewritten.`;
  }
  if (kept.key !== session.about.log_key) {
    fail(
      "SigningKeyChanged",
      `the store now signs with another key than the one this browser saw first, on ${moment(kept.since)}`,
    );
  }
  const older = headIn(kept);
  const { text } = await get(`/v1/log/consistency?since=${older.size}`).catch((error) => {
    if (error.status === 422)
      fail("consistency-sizes-reversed", `the ledger no longer has the ${older.size} leaves that this browser saw`);
    throw error;
  });
  const newer = await verifyExtension(toUtf8(kept.note), toUtf8(text), await parseTrust(kept.key));
  // The head that was verified, from the proof itself: what the service says beside it may be any other.
  keep(text.slice(text.indexOf("\n\n") + 2), newer.size, kept.key, kept.since);
  const grown = newer.size - older.size;
  const since = grown === 0n ? "the same" : `${plural(grown, "leaf", "leaves")} more`;
  return `${plural(newer.size, "leaf", "leaves")}, signed. It extends the head that this browser kept (${since}); watching since ${moment(kept.since)}.`;
}

const headIn = (kept) => parseCheckpoint(parseNote(toUtf8(kept.note)).text);

function keep(note, size, key, since = new Date().toISOString()) {
  // Another tab may have kept one while this one waited: what it saw is not given up for what is older.
  const now = keptHead();
  if (now !== null && (now.key !== key || headIn(now).size >= size)) return;
  localStorage.setItem(storageKey(), JSON.stringify({ note, key, since }));
}

// A line that shows the result of the check when it is there.
export function headLine() {
  const line = h("p", { class: "head muted" }, "Checking the ledger's head …");
  (async () => {
    const cannot = await unsupportedReason();
    if (cannot !== null)
      return replace(line, h("span", { class: "sign skipped" }, "–"), ` Ledger not checked. ${cannot}`);
    try {
      const text = await compare();
      line.classList.add("passed");
      return replace(line, h("span", { class: "sign passed" }, "✓"), " Ledger: ", text);
    } catch (error) {
      if (!(error instanceof VerificationError))
        return replace(line, `The ledger's head could not be checked: ${error.message}`);
      line.classList.replace("muted", "failed");
      line.setAttribute("role", "alert");
      return replace(
        line,
        h("span", { class: "sign failed" }, "✗"),
        h("strong", {}, ` ${error.name}: `),
        `${error.message}. Do not rely on this store before you know why.`,
      );
    }
  })();
  return line;
}
