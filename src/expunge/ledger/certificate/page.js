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
