// Written by tools/build_verifier.py from src/expunge/ledger/certificate: page.js, words.json, html.py.

export const WORDS = {
  "title": {
    "erased": "Certificate of erasure",
    "incomplete": "Erasure NOT COMPLETE",
    "refused": "Refusal: nothing was erased",
    "nothing": "Record: there was nothing to erase",
    "edit": "Record of an edit"
  },
  "lead": {
    "erased": {
      "one": "The operator of the store states and signs: 1 entry was removed.",
      "other": "The operator of the store states and signs: {entries} entries were removed."
    },
    "incomplete": {
      "one": "This is no certificate of erasure. 1 entry was removed, and in {kept} something was NOT removed.",
      "other": "This is no certificate of erasure. {entries} entries were removed, and in {kept} something was NOT removed."
    },
    "refused": {
      "one": "This is no certificate of erasure. The request was refused, and every entry is still there.",
      "other": "This is no certificate of erasure. The request was refused, and every entry is still there."
    },
    "nothing": {
      "one": "This is no certificate of erasure. Nothing was found that could be removed, and nothing was changed.",
      "other": "This is no certificate of erasure. Nothing was found that could be removed, and nothing was changed."
    },
    "edit": {
      "one": "This is no certificate of erasure. It records another change of a memory, with 1 entry.",
      "other": "This is no certificate of erasure. It records another change of a memory, with {entries} entries."
    }
  },
  "heading": {
    "facts": "What was done",
    "memories": "In which collections of entries",
    "covers": "What this confirms",
    "excludes": "NOT covered: these may still exist",
    "record": "For auditors",
    "check": "How to check that this is genuine",
    "identity": "For the check"
  },
  "fact": {
    "subject": "Whose data",
    "what": "What",
    "store": "From which store",
    "time": "When",
    "actor": "By whom",
    "case": "Case number",
    "how": "How"
  },
  "subject": {
    "revealed": "{text}",
    "hidden": "A person whose name is not on this page. Whoever asked for the erasure was given the secret number (salt) that shows it.",
    "unnamed": "The receipt is about entries and does not say whose they are."
  },
  "what": {
    "erased": {
      "one": "1 entry (stored item) was removed from {memories}.",
      "other": "{entries} entries (stored items) were removed from {memories}."
    },
    "dropped": {
      "one": "A whole memory was removed, with 1 entry.",
      "other": "A whole memory was removed, with {entries} entries."
    },
    "incomplete": {
      "one": "1 entry was removed; entries of the person are still in {kept}.",
      "other": "{entries} entries were removed; entries of the person are still in {kept}."
    },
    "nothing": {
      "one": "Nothing was removed.",
      "other": "Nothing was removed."
    },
    "created": {
      "one": "A memory was made from 1 entry.",
      "other": "A memory was made from {entries} entries."
    },
    "admitted": {
      "one": "1 entry was added.",
      "other": "{entries} entries were added."
    },
    "pruned": {
      "one": "1 entry was set aside: it had no weight.",
      "other": "{entries} entries were set aside: they had no weight."
    },
    "rebuilt": {
      "one": "The memory was computed anew.",
      "other": "The memory was computed anew."
    },
    "restored": {
      "one": "The memory went back to an older state, from a backup.",
      "other": "The memory went back to an older state, from a backup."
    }
  },
  "memories": {
    "one": "1 collection",
    "other": "{count} collections"
  },
  "kept": {
    "one": "1 collection",
    "other": "{count} collections"
  },
  "time": "{day} {month} {year}, {clock} UTC, by the operator's own clock",
  "months": [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December"
  ],
  "stated": {
    "revealed": "{text}",
    "hidden": {
      "actor": "the operator of this store; who acted for it is stated in the receipt, and not shown on this page",
      "case": "stated in the receipt, and not shown on this page"
    },
    "none": {
      "actor": "the operator of this store; nobody is named",
      "case": "not stated"
    }
  },
  "how": {
    "erased": "The entries were deleted and the encryption keys of their stored copies destroyed. What is computed from the collection was computed again without them, and checked. Nobody else's entries were changed.",
    "dropped": "The collection was deleted, and the encryption keys of the stored copies of its entries were destroyed.",
    "incomplete": "Where it was done: the entries were deleted, the encryption keys of their stored copies destroyed, and what is computed from the collection was computed again without them.",
    "refused": "Refused: {reason}.",
    "nothing": "There was nothing to do.",
    "edit": "The memory was computed and checked."
  },
  "reason": {
    "no_acceptable_state": "no correct state was found without the entries",
    "would_end_warranties": "it would have ended certificates of other entries",
    "legal_hold": "a legal hold forbids it",
    "unknown": "nothing was removed"
  },
  "column": {
    "memory": "Collection",
    "outcome": "What happened",
    "entries": "Entries",
    "time": "When (UTC)",
    "leaf": "Record no."
  },
  "outcome": {
    "certified_zero": "removed; no answer changed",
    "decrement": "removed; results computed again",
    "refitted": "removed; results computed anew",
    "emptied": "removed; nothing is left",
    "refused": "REFUSED: {reason}",
    "noop": "nothing was left there",
    "failed": "NOT removed: it failed, and can be tried again",
    "dropped": "the whole memory removed",
    "created": "made",
    "admitted": "added",
    "pruned": "set aside",
    "rebuilt": "computed anew",
    "restored": "went back to a backup"
  },
  "more": {
    "one": "and 1 more collection, which is inside this file",
    "other": "and {count} more collections, which are inside this file"
  },
  "names": "Names of collections are the operator's words and are not signed.",
  "covers": {
    "subject_erased": "At that time, no entry that the operator had marked as this person's was left in any collection of this store. Entries without that mark are not covered.",
    "incomplete": "It says which collections were done and which were not. Nothing is claimed about the latter.",
    "no_readout_change": "Where no answer changed, the removed entries had no influence on any answer.",
    "fresh_fit": "No trace of the entries is left in what was computed again: it equals what the remaining entries give alone (each number to a billionth).",
    "fresh_fit_at_new_cap": "What was computed anew comes from the remaining entries alone, under a new setting (the cap).",
    "no_entry_left": "Where nothing is left, the collection holds no entry.",
    "no_readout_change_under_warranty": "No answer changes, as long as the warranties hold.",
    "nothing": "Nothing is claimed about what the collection holds.",
    "dropped": "The collection was taken out of the store, with every entry in it.",
    "lasting": "It is about that moment, and stays true of it. It says nothing of what was added later."
  },
  "excludes": [
    "Entries that nobody marked as this person's.",
    "Copies made before: backups, exports, copies in other systems, and what somebody has read or printed.",
    "AI models that were trained on the entries or were given them to work with.",
    "Other results that somebody computes from the remaining entries.",
    "Entries added later, also about the same person.",
    "Settings (averages, ranges) that were chosen from the entries and rounded.",
    "Leftover blocks of the disk, and its snapshots."
  ],
  "copies": {
    "covered": {
      "one": "One copy in another system that the operator keeps in step was deleted there: neither the system nor its files had it any more.",
      "other": "{count} copies in other systems that the operator keeps in step were deleted there: neither the systems nor their files had them any more."
    },
    "excludes": "Copies made before: backups, exports, copies in systems that the operator does not keep in step, and what somebody has read or printed.",
    "in_files": {
      "one": "One copy in a system that the operator keeps in step: it does not answer with it any more, and its files still held a part of it.",
      "other": "{count} copies in systems that the operator keeps in step: these do not answer with them any more, and their files still held parts of them."
    },
    "not_checkable": {
      "one": "One copy in a system that the operator keeps in step: it does not answer with it any more, and whether its files held it nobody could tell.",
      "other": "{count} copies in systems that the operator keeps in step: these do not answer with them any more, and whether their files held them nobody could tell."
    },
    "pending": {
      "one": "One copy in a system that the operator keeps in step: it was STILL TO BE DELETED there when this page was made.",
      "other": "{count} copies in systems that the operator keeps in step: they were STILL TO BE DELETED there when this page was made."
    }
  },
  "record": {
    "target": "Target",
    "method": "Sanitization method",
    "technique": "Technique",
    "tool": "Tool",
    "verification": "Verification",
    "rule": "Reason for the deletion",
    "responsible": "Responsible",
    "by_hand": "Optional, by hand: name, position, place, date, signature"
  },
  "target": {
    "one": "1 entry; the disk itself stays in use",
    "other": "{count} entries; the disk itself stays in use"
  },
  "method": "of single entries; Clear, Purge and Destroy are methods for whole media",
  "technique": {
    "erased": "deletion, and cryptographic erase: each entry had a key of its own, which was destroyed",
    "none": "none"
  },
  "verification": {
    "recomputed": "by the tool itself, from the remaining entries, to 1e-9",
    "none": "by the tool: nothing is left to recompute",
    "unchanged": "by the tool: the memory is unchanged"
  },
  "rule": {
    "request": "a request for erasure (in the ledger: {request})",
    "due": "a request for erasure, record {leaf} (in the ledger: {request})",
    "edit": "none"
  },
  "standards": "The items follow the certificate of sanitization of NIST SP 800-88r2, section 4.6, and ISO/IEC 27555, as far as they apply to entries. Conformance is not claimed.",
  "check": [
    "Do not go by this page alone: a forger can make one that looks the same. It is signed electronically, and a verifier checks that signature.",
    "Get the operator's public key in another way than with this page (from its website, an earlier letter, or by telephone), and compare its fingerprint with the one below.",
    "Open this file in a verifier (verifier.html, from a release of expunge, or expunge verify certificate FILE --trust KEY) and give it the key. It must say that the document is verified; if not, do not rely on it, and ask the operator.",
    "A verified page shows what the operator signed and when the ledger recorded it. It cannot show that the operator told the truth. From paper: the QR code names the record to ask the operator for."
  ],
  "identity": {
    "key": "Fingerprint of key",
    "leaf": "Hash of this record",
    "number": "Record and ledger",
    "head": "State of the ledger",
    "witnesses": "Independent witnesses",
    "timestamps": "Independent time stamps"
  },
  "number": "record {index} of {origin} (the first is 0)",
  "head": "{size} records, {root}",
  "nobody": "none: nobody but the operator vouches for the ledger",
  "timestamps": {
    "one": "1 (RFC 3161)",
    "other": "{count} (RFC 3161)"
  },
  "no_timestamps": "none: the time is the operator's word",
  "qr": "QR code with fingerprint, hash, number and ledger",
  "self_check": {
    "unchecked": "This page has not checked itself. Its script did not run.",
    "undamaged": "This page is undamaged. That is all a page can say about itself: only a verifier, with a key from elsewhere, shows that it is genuine.",
    "damaged": "DAMAGED: this page is not as it was made. Do not rely on it. (Translation by a browser also changes a page.)"
  }
};

// Parts of a file that are the same in every one: their lengths in bytes, and SHA-256 over all of them.
export const TEMPLATE = {"lengths": [390, 3482, 47, 13, 2, 27665], "sha256": "b187a923c4e70ad812ef8f1a8330ba59bff2345ac74f953113a035ca1a86a6a7"};

// The page of a certificate document, as a function of what the document embeds. Mirrors page.py and html.py; a test
// compares the two. Nothing here is verified: envelopes and proofs are only read.

const ERASED = ["certified_zero", "decrement", "refitted", "emptied"];
const KEPT = ["refused", "failed"];
const RECOMPUTED = ["certified_zero", "decrement", "refitted"];
const FOUND = ["absent", "in_files", "not_checkable"];
const MOST_ROWS = 5;
const MOST_WITNESSES = 3;
// Characters of the facts but the last, beyond which the page is set closer, so that it stays one sheet.
const LONG = 240;

// data: the parsed JSON of a document. words: words.json. Returns the texts by their places, in the order of the page.
export function pageOf(data, words) {
  const leaf = openLeaf(data.leaf);
  const counted = data.counted.map(openLeaf);
  const copies = (data.copies ?? []).map(openLeaf);
  const found = copiesByFinding(copies, erasuresOf([leaf, ...counted]));
  const receipt = leaf.event ? null : leaf.stated;
  const summary = leaf.event === "subject_erased" ? leaf.stated.facts : null;
  const parts = summary ? summary.memories : [];
  const entries = countEntries(leaf, summary);
  const kept = parts.filter((part) => KEPT.includes(part.outcome)).length;
  const tone = toneOf(leaf, summary, entries);
  const { origin } = leaf.head;
  const shown = (what, digest) => {
    if (data.revealed[what]) return fill(words.stated.revealed, { text: data.revealed[what].text });
    return words.stated[digest === null ? "none" : "hidden"][what];
  };

  const values = { entries: `${entries}`, kept: count(words.kept, kept) };
  const subject = data.revealed.subject
    ? fill(words.subject.revealed, { text: data.revealed.subject.text })
    : words.subject[summary ? "hidden" : "unnamed"];
  let did = { refused: "nothing", edit: receipt?.outcome }[tone] ?? tone;
  if (!receipt && !summary) did = "dropped";
  const done = parts.filter((part) => ERASED.includes(part.outcome)).length || 1;
  const what = fill(count(words.what[did], entries), { ...values, memories: count(words.memories, done) });
  const how = fill(words.how[!receipt && !summary ? "dropped" : tone], {
    reason: receipt?.refusal ? words.reason[receipt.refusal.reason] : "",
  });
  const actor = shown("actor", leaf.stated.request.actor);
  const rows = memoryRows(leaf, counted, summary, entries, data.names, words);
  const hidden = rows.length - MOST_ROWS;
  return {
    tone,
    title: words.title[tone],
    lead: fill(count(words.lead[tone], entries), values),
    facts: [
      [words.fact.subject, subject],
      [words.fact.what, what],
      [words.fact.store, origin],
      [words.fact.time, timeText(leaf.stated.time, words)],
      [words.fact.actor, actor],
      [words.fact.case, shown("case", leaf.stated.request.case)],
      [words.fact.how, how],
    ],
    columns: Object.values(words.column),
    memories: rows.slice(0, MOST_ROWS),
    more: hidden > 0 ? count(words.more, hidden) : null,
    names: Object.keys(data.names).length ? words.names : null,
    covers: covers(leaf, counted, summary, tone, found.absent, words),
    excludes: excludes(copies, found, words),
    record: record(leaf, counted, summary, entries, tone, actor, words),
    check: words.check.map((text) => fill(text, { origin })),
    identity: identity(leaf, data.timestamps.length, words),
  };
}

// The markup of the page; qr is the size of the QR code and its path.
export function mainOf(page, [size, path], words) {
  const heading = (name) => `<h2>${escapeText(words.heading[name])}</h2>`;
  const pairs = (rows) =>
    `<dl>${rows.map(([label, text]) => `<div><dt>${escapeText(label)}</dt><dd>${escapeText(text)}</dd></div>`).join("")}</dl>`;
  const items = (texts) => `<ul>${texts.map((text) => `<li>${escapeText(text)}</li>`).join("")}</ul>`;
  const note = (text) => (text === null ? "" : `<p class="note">${escapeText(text)}</p>`);
  const section = (name, inside) => `<section class="${name}">${heading(name)}${inside}</section>`;
  const columns = page.columns.map((name) => `<th scope="col">${escapeText(name)}</th>`).join("");
  const rows = page.memories.map((row) => `<tr>${row.map((text) => `<td>${escapeText(text)}</td>`).join("")}</tr>`);
  const shown = page.facts.slice(0, -1).reduce((total, [, text]) => total + [...text].length, 0);
  const long = shown > LONG ? ' data-long="true"' : "";
  return [
    `<main id="page" data-tone="${page.tone}"${long}><h1>${escapeText(page.title)}</h1>`,
    `<p class="lead">${escapeText(page.lead)}</p>`,
    section("facts", pairs(page.facts)),
    section(
      "memories",
      `<table><thead><tr>${columns}</tr></thead><tbody>${rows.join("")}</tbody></table>${note(page.more)}${note(page.names)}`,
    ),
    `<div class="scope">${section("covers", items(page.covers))}${section("excludes", items(page.excludes))}</div>`,
    section("record", pairs(page.record) + note(words.standards)),
    section("check", items(page.check)),
    section(
      "identity",
      `<svg role="img" aria-label="${words.qr}" viewBox="0 0 ${size} ${size}"><path d="${path}"></path></svg>${pairs(page.identity)}`,
    ),
    "</main>",
  ].join("");
}

function toneOf(leaf, summary, entries) {
  if (leaf.event) {
    if (!summary) return "erased";
    if (!summary.complete) return "incomplete";
    return entries ? "erased" : "nothing";
  }
  const { outcome } = leaf.stated;
  if (outcome === "refused") return "refused";
  if (outcome === "noop") return "nothing";
  return ERASED.includes(outcome) ? "erased" : "edit";
}

function countEntries(leaf, summary) {
  if (summary) return summary.memories.reduce((total, part) => total + part.entries, 0);
  return leaf.event ? leaf.stated.facts.live + leaf.stated.facts.pruned : leaf.stated.applied.count;
}

// One row for each memory, those that kept something first.
function memoryRows(leaf, counted, summary, entries, names, words) {
  const row = (uuid, outcome, number, of) => [
    Object.hasOwn(names, uuid) ? `${names[uuid]} (${uuid})` : uuid,
    fill(words.outcome[outcome], { reason: words.reason[of?.stated.refusal?.reason ?? "unknown"] }),
    `${number}`,
    of ? of.stated.time.slice(0, 19).replace("T", " ") : "–",
    of ? `${of.index}` : "–",
  ];
  if (!summary) return [row(leaf.stated.memory, leaf.event ?? leaf.stated.outcome, entries, leaf)];
  const rank = (part) => (KEPT.includes(part.outcome) ? "0" : "1") + part.memory;
  const parts = [...summary.memories].sort((one, other) => (rank(one) < rank(other) ? -1 : 1));
  return parts.map((part) =>
    row(
      part.memory,
      part.outcome,
      part.entries,
      counted.find((found) => found.index === part.leaf),
    ),
  );
}

function covers(leaf, counted, summary, tone, absent, words) {
  const found = summary
    ? [tone === "incomplete" ? "incomplete" : "subject_erased", ...counted.map((part) => part.stated.covers)]
    : [leaf.event ? "dropped" : leaf.stated.covers];
  const kept = [...new Set(found)].filter((word) => word !== "nothing" || !summary);
  const copies = absent ? [count(words.copies.covered, absent)] : [];
  return [...kept.map((word) => words.covers[word]), ...copies, words.covers.lasting];
}

// What the document does not cover; copies in mirrors are named by what was found of them.
function excludes(copies, found, words) {
  if (!copies.length) return words.excludes;
  const [marked, , ...rest] = words.excludes;
  const left = ["in_files", "not_checkable", "pending"].filter((word) => found[word]);
  return [marked, words.copies.excludes, ...left.map((word) => count(words.copies[word], found[word])), ...rest];
}

// Of erasures: the leaf, the memory, and how many entries went.
function erasuresOf(leaves) {
  const erased = leaves.filter(({ event, stated }) => (event ? event === "dropped" : ERASED.includes(stated.outcome)));
  return erased.map((leaf) => ({ index: leaf.index, memory: leaf.stated.memory, entries: countEntries(leaf, null) }));
}

// How many copies each finding is about; those that no leaf is about yet are pending.
function copiesByFinding(copies, erasures) {
  const due = new Map();
  const counts = Object.fromEntries([...FOUND, "pending"].map((word) => [word, 0]));
  for (const { index, event, stated, subject } of copies) {
    if (event === "mirror_added") {
      for (const { index: at, memory, entries } of erasures)
        if (at > index && entries && [null, memory].includes(stated.facts.of)) due.set(`${subject} ${at}`, entries);
    } else {
      for (const part of stated.facts.findings ?? [])
        if (due.delete(`${subject} ${part.leaf}`)) for (const word of FOUND) counts[word] += part[word];
    }
  }
  for (const entries of due.values()) counts.pending += entries;
  return counts;
}

function record(leaf, counted, summary, entries, tone, actor, words) {
  const receipts = [leaf, ...counted].filter((part) => !part.event).map((part) => part.stated);
  const recomputed = tone === "edit" || receipts.some((receipt) => RECOMPUTED.includes(receipt.outcome));
  const unchanged = ["refused", "nothing"].includes(tone);
  const requested = summary ? summary.requested : null;
  const rule = tone === "edit" ? "edit" : requested === null ? "request" : "due";
  const erased = entries > 0 && ["erased", "incomplete"].includes(tone);
  const label = words.record;
  return [
    [label.target, count(words.target, entries)],
    [label.method, words.method],
    [label.technique, words.technique[erased ? "erased" : "none"]],
    [label.tool, receipts.length ? `${receipts[0].solver.name} ${receipts[0].solver.version}` : "expunge"],
    [label.verification, words.verification[unchanged ? "unchanged" : recomputed ? "recomputed" : "none"]],
    [label.rule, fill(words.rule[rule], { request: leaf.stated.request.id, leaf: `${requested}` })],
    [label.responsible, actor],
    [label.by_hand, ""],
  ];
}

function identity(leaf, timestamps, words) {
  const { origin, size, root, witnesses } = leaf.head;
  const more = witnesses.length > MOST_WITNESSES ? ["…"] : [];
  const label = words.identity;
  return [
    [label.key, leaf.signers.join(" ")],
    [label.leaf, leaf.hash],
    [label.number, fill(words.number, { index: `${leaf.index}`, origin })],
    [label.head, fill(words.head, { size, root })],
    [label.witnesses, [...witnesses.slice(0, MOST_WITNESSES), ...more].join(", ") || words.nobody],
    [label.timestamps, timestamps ? count(words.timestamps, timestamps) : words.no_timestamps],
  ];
}

// What an envelope and its inclusion proof say.
function openLeaf({ envelope, inclusion }) {
  const { payload, signatures } = JSON.parse(envelope);
  const { predicate, subject } = JSON.parse(textOf(payload));
  const [head, note] = splitOnce(inclusion, "\n\n");
  const [text, lines] = splitOnce(note, "\n\n");
  const [origin, size, root] = text.split("\n");
  const index = head.split("\n").find((line) => line.startsWith("index "));
  const names = lines.split("\n").map((line) => line.split(" ")[1]);
  return {
    stated: predicate,
    event: predicate.event ?? null,
    subject: subject[0].digest.sha256,
    index: Number(index.slice(6)),
    signers: signatures.map((signature) => signature.keyid),
    hash: sha256Hex(new TextEncoder().encode(`\0${envelope}`)),
    head: {
      origin,
      size,
      root: Array.from(bytesOf(root), (byte) => byte.toString(16).padStart(2, "0")).join(""),
      witnesses: [...new Set(names)].filter((name) => name && name !== origin),
    },
  };
}

function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return [text.slice(0, at), text.slice(at + mark.length)];
}

export const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

export const textOf = (base64) => new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(base64));

function timeText(text, words) {
  const [year, month, day] = text.slice(0, 10).split("-").map(Number);
  return fill(words.time, {
    day: `${day}`,
    month: words.months[month - 1],
    year: text.slice(0, 4),
    clock: text.slice(11, 19),
  });
}

const count = (forms, number) => fill(forms[number === 1 ? "one" : "other"], { count: `${number}` });

// In one pass: a value may look like a place.
const fill = (text, values) =>
  text.replace(/\{([a-z]+)\}/g, (place, name) => (Object.hasOwn(values, name) ? values[name] : place));

export const escapeText = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\u00a0", "&nbsp;");

// FIPS 180-4, in the open: a file that is opened from a disk may be refused the browser's own.
export function sha256Hex(bytes) {
  const length = bytes.length;
  const padded = new Uint8Array((((length + 8) >> 6) + 1) << 6);
  padded.set(bytes);
  padded[length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(length / 0x20000000));
  view.setUint32(padded.length - 4, length << 3);
  const [start, constants] = sha256Constants();
  const state = Int32Array.from(start);
  const words = new Int32Array(64);
  const turn = (value, by) => (value >>> by) | (value << (32 - by));
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 64; i += 1) {
      if (i < 16) words[i] = view.getInt32(at + 4 * i);
      else {
        const [early, late] = [words[i - 15], words[i - 2]];
        const mixed = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
        words[i] = words[i - 16] + mixed + words[i - 7] + (turn(late, 17) ^ turn(late, 19) ^ (late >>> 10));
      }
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i += 1) {
      const chosen = (e & f) ^ (~e & g);
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + chosen + constants[i] + words[i]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => {
      state[i] += value;
    });
  }
  return Array.from(state, (value) => (value >>> 0).toString(16).padStart(8, "0")).join("");
}

// The fractions of the square and cube roots of the first primes, to 32 bits.
function sha256Constants() {
  const primes = [];
  for (let number = 2; primes.length < 64; number += 1)
    if (primes.every((prime) => number % prime !== 0)) primes.push(number);
  const fraction = (value) => ((value - Math.floor(value)) * 0x100000000) | 0;
  return [primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime))), primes.map((prime) => fraction(Math.cbrt(prime)))];
}
