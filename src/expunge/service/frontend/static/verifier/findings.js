// From dropped files to findings: which files belong together, what is checked of each, and what that comes to.
// A finding: { name, kind, state: "passed" | "partial" | "failed", verdict, done, lead, facts, about, steps };
// `done` is how far what it states was done, where that can be graded.

import { count, moment, plural } from "../numbers.js";
import { parseBundle } from "../verify/bundle_format.js";
import { checkBundle } from "../verify/bundle.js";
import { comparePage, findData, readCertificate, verifyCertificate } from "../verify/certificate.js";
import { parseNote, verifyCheckpoint } from "../verify/checkpoint.js";
import { verifyCosignatures } from "../verify/cosignature.js";
import { equal, toHex } from "../verify/encoding.js";
import { envelopeBytes, readEnvelope } from "../verify/envelope.js";
import { fail, Unchecked } from "../verify/failure.js";
import { asFile, ledgerLines, trimmed } from "../verify/files.js";
import { addedKeys } from "../verify/key_timeline.js";
import { headKeys, verifyLedger } from "../verify/ledger.js";
import { leafHash, verifyInclusion } from "../verify/merkle.js";
import { parseExtensionProof, parseInclusionProof, verifyExtension } from "../verify/proof.js";
import { opened } from "../verify/revealed.js";
import { chain, checkInclusion, checkLeaf, checkWitnesses, failureOf, headDetail } from "../verify/steps.js";
import { readStamp, verifyStamp } from "../verify/timestamp.js";
import { checkNotOwn } from "../verify/trust.js";
import { stateOf } from "../receipt_text.js";
import { leafFacts, leafLead, witnessFacts } from "./leaf_text.js";

// What is checked goes by the files that are there; `progress` hears of the leaves of a ledger.
export async function inspect(files, { trust, about, now, progress = () => {} }) {
  const of = (kind) => files.filter((file) => file.kind === kind);
  const policy = { trust, about, now, progress, stamps: of("stamp") };
  const findings = [];
  for (const file of of("document").concat(of("pdf"), of("certificate"))) findings.push(await certificate(file, policy));
  for (const file of of("envelope")) findings.push(await receipt(file, await proofOf(file, of("proof")), policy));
  for (const file of of("bundle")) findings.push(await bundle(file, policy));
  const heads = of("head");
  const [ledger] = of("ledger");
  if (ledger) findings.push(await wholeLedger(ledger, heads, policy));
  for (const file of of("extension")) findings.push(await extension(file, heads, policy));
  if (!ledger && !of("extension").length && heads.length) findings.push(await headsAlone(heads, policy));
  for (const file of of("unknown")) findings.push(unknown(file));
  return findings;
}

// The proof that fits, else the one of the same name, else the only one.
async function proofOf({ bytes, name }, proofs) {
  const leaf = await leafHash(leafBytes(trimmed(bytes)));
  for (const { bytes: proof } of proofs) {
    try {
      const { index, path, note } = parseInclusionProof(asFile(proof));
      const { size, root } = headOf(note);
      await verifyInclusion(leaf, index, size, path, root);
      return proof;
    } catch {
      // Another one may fit; if none does, the steps say why.
    }
  }
  const stem = (text) => text.replace(/\.[^.]*$/, "");
  const found = proofs.find((proof) => stem(proof.name) === stem(name)) ?? (proofs.length === 1 ? proofs[0] : null);
  return found?.bytes ?? null;
}

// The leaf that a receipt is, in whatever spelling it came.
function leafBytes(bytes) {
  try {
    return envelopeBytes(readEnvelope(bytes));
  } catch {
    return bytes;
  }
}

const headOf = (note) => {
  const [origin, size, root] = new TextDecoder().decode(note.text).split("\n");
  return { origin, size: BigInt(size), root: Uint8Array.from(atob(root), (letter) => letter.charCodeAt(0)) };
};

async function receipt(file, proof, policy) {
  const steps = [];
  const leaf = await checkLeaf(steps, trimmed(file.bytes), policy.trust);
  const place = await checkInclusion(steps, leaf.bytes, proof, policy.trust, policy.now);
  const stamped = place.note ? await stampSteps(steps, place.note, policy) : [];
  return finish(file, steps, {
    missing:
      place.index === undefined
        ? "Its place in a ledger was not checked: no proof of inclusion was given."
        : notHere(place),
    good: "Genuine: signed by a key that you trust, consistent in itself, and in the ledger.",
    done: leaf.stated && stateOf(leaf),
    lead: leaf.stated && leafLead(leaf),
    facts: leaf.stated && leafFacts(leaf, place, stamped),
    about: leaf.stated && (await aboutLeaf(leaf.statement, policy.about)),
  });
}

async function bundle(file, policy) {
  const steps = [];
  const step = chain(steps);
  let found;
  await step("The bundle has its one form, and every file in it its digest", async () => {
    found = await parseBundle(file.bytes);
    return `${plural(found.size, "entry", "entries")} of ${plural(found.dimension, "coordinate")}`;
  });
  if (!found) return finish(file, steps, {});
  const leaf = await checkLeaf(steps, found.receipt, policy.trust);
  const place = await checkInclusion(steps, found.receipt, found.inclusion, policy.trust, policy.now);
  if (!failureOf(steps)) {
    await chain(steps)("Keys, values and weights have the digests that the receipt signs", async () => {
      if (leaf.isEvent) fail("statement-predicate-type-mismatch", "an event of a store has no bundle");
      await checkBundle(found, leaf.stated);
      return `state ${leaf.stated.after}`;
    });
    steps.push({
      title: "The weights are the exact optimum",
      state: "skipped",
      detail: "NOT CHECKED HERE: this is numerical work; `expunge verify evidence` does it from the same file",
    });
  }
  return finish(file, steps, {
    missing: "Whether its weights are the exact optimum was not recomputed here; expunge verify evidence does that.",
    done: leaf.stated && stateOf(leaf),
    lead: leaf.stated && leafLead(leaf),
    facts: leaf.stated && leafFacts(leaf, place, []),
    about: leaf.stated && (await aboutLeaf(leaf.statement, policy.about)),
  });
}

const PAGES = {
  document: "Its page shows what was signed; only the QR code was not checked.",
  pdf: "Go by what is said here: what the document itself shows was not compared.",
  certificate: "These are its data alone, without a page.",
};

async function certificate(file, policy) {
  const { trust, now } = policy;
  const steps = [];
  const step = chain(steps);
  let data, found, head, place;
  await step("The document carries its data", async () => {
    data = file.kind === "certificate" ? trimmed(file.bytes) : await findData(file.bytes);
    return `${count(data.length)} bytes`;
  });
  await step("Its parts belong together", async () => {
    found = await readCertificate(data);
    return found.counted.length ? `${plural(found.counted.length, "leaf", "leaves")} counted` : "one leaf";
  });
  await step("Every leaf is signed by a trusted key, and in the ledger", async () => {
    head = await verifyCertificate(found, trust, async (note) => {
      if (trust.witnesses.length) place = await verifyCosignatures(note, trust, now);
    });
    return headDetail(head, trust);
  });
  if (failureOf(steps)) return finish(file, steps, {});
  const { leaf } = found;
  const kept = found.stamps.map((bytes, at) => ({ name: `time stamp ${at + 1}`, bytes }));
  const stamped = await stampSteps(steps, leaf.proof.note, { ...policy, stamps: [...kept, ...policy.stamps] });
  if (file.kind === "document") {
    await step("The page is the one that the data make, to the last byte", async () => {
      await comparePage(file.bytes, data);
      return "text, style and script; the QR code was taken from the file as it is, and not checked";
    });
  } else if (file.kind === "pdf") {
    const detail = "NOT COMPARED HERE: go by what this verifier says, not by what the document shows";
    steps.push({ title: "The page shows what its data say", state: "skipped", detail });
  }
  leaf.signer = leaf.envelope.signatures.map(({ keyId }) => keyId).find((id) => trust.keys.some((key) => key.keyId === id));
  return finish(file, steps, {
    missing: notHere(place),
    good: `Genuine: its leaf, and every leaf that it counts, is signed by a key that you trust, and in the ledger. ${PAGES[file.kind]}`,
    done: stateOf(leaf),
    lead: leafLead(leaf),
    facts: leafFacts(leaf, { index: leaf.proof.index, head, ...place }, stamped, found),
    about: await aboutLeaf(leaf.statement, policy.about),
  });
}

async function wholeLedger(file, heads, policy) {
  const { trust, now, progress } = policy;
  const steps = [];
  const step = chain(steps);
  const lines = ledgerLines(file.bytes);
  const notes = [];
  const found = { leaves: [] };
  await step("Ed25519: the ledger signed its head", async () => {
    if (!heads.length) throw new Unchecked("no signed head was given, so nothing says that this is the whole ledger");
    checkNotOwn(trust.witnesses, (await addedKeys(lines)).map(({ key }) => key));
    for (const { bytes } of heads) notes.push({ note: parseNote(asFile(bytes)) });
    const keys = await headKeys(lines, trust.keys);
    for (const each of notes) each.head = await verifyCheckpoint(each.note, keys);
    notes.sort((one, other) => (one.head.size < other.head.size ? 1 : -1));
    return headDetail(notes[0].head, trust);
  });
  if (notes.length && trust.witnesses.length) await checkWitnesses(step, () => notes[0].note, trust, now, found);
  const stamped = notes.length && !failureOf(steps) ? await stampSteps(steps, notes[0].note, policy) : [];
  await step("Every leaf is signed, and none contradicts those before it", async () => {
    const seen = [
      ...(found.cosigned ?? []).map(({ time }) => ({ head: notes[0].head, time: Number(time) })),
      ...stamped.map(({ time }) => ({ head: notes[0].head, time: Math.floor(Date.parse(time) / 1000) })),
    ];
    found.tally = await verifyLedger(lines, notes.map(({ note }) => note), trust.keys, {
      now,
      seen,
      progress,
      each: (index, stated, statement) => found.leaves.push({ index, stated, statement }),
    });
    return `${plural(lines.length, "leaf", "leaves")}${notes.length > 1 ? `; each of ${plural(notes.length, "head")} is one that it had` : ""}`;
  });
  const { tally } = found;
  return finish(file, steps, {
    missing: notes.length ? notHere(found) : "No signed head was given: leaves may be missing at the end.",
    good: "The whole ledger holds together: every leaf is signed by a key that you trust, none contradicts another, and together they are what the head says.",
    lead: tally && [ledgerText(tally, lines.length)],
    facts: tally && ledgerFacts(tally, notes, found),
    about: tally && (await aboutLedger(found.leaves, policy.about)),
  });
}

async function extension(file, heads, policy) {
  const steps = [];
  const step = chain(steps);
  const { trust, now } = policy;
  const found = {};
  let newer, older, parsed;
  await step("The ledger only grew between the two heads", async () => {
    const proof = asFile(file.bytes);
    parsed = parseExtensionProof(proof);
    const { oldSize } = parsed;
    const sized = heads.filter(({ bytes }) => sizeOf(bytes) === oldSize);
    older = (sized[0] ?? heads[0])?.bytes;
    if (!older) throw new Unchecked("the head that you kept is not among the files");
    newer = await verifyExtension(asFile(older), proof, trust.keys);
    return headDetail(newer, trust);
  });
  if (newer && trust.witnesses.length) await checkWitnesses(step, () => parsed.note, trust, now, found);
  return finish(file, steps, {
    missing: newer ? notHere(found) : "The head that you kept earlier is not among the files.",
    good: "The ledger only grew: every leaf under the older head is still there, unchanged.",
    lead: newer && [`${plural(newer.size, "leaf", "leaves")} now, ${count(sizeOf(older))} then.`],
    facts: newer && [["Ledger", newer.origin], ...witnessFacts(found)],
  });
}

function sizeOf(bytes) {
  try {
    return headOf(parseNote(asFile(bytes))).size;
  } catch {
    return null;
  }
}

async function headsAlone(files, policy) {
  const { trust, now } = policy;
  const steps = [];
  const step = chain(steps);
  const heads = [];
  const found = { cosigned: [], unchecked: [] };
  let stamped = [];
  for (const file of files) {
    await step(`Ed25519: the ledger signed ${file.name}`, async () => {
      const note = parseNote(asFile(file.bytes));
      heads.push({ note, ...(await verifyCheckpoint(note, trust.keys)) });
      return headDetail(heads.at(-1), trust);
    });
    const watched = { cosigned: [], unchecked: [] };
    if (heads.length && trust.witnesses.length) await checkWitnesses(step, () => heads.at(-1).note, trust, now, watched);
    for (const [kind, lines] of Object.entries(watched)) found[kind].push(...lines);
    if (!failureOf(steps)) stamped = stamped.concat(await stampSteps(steps, heads.at(-1).note, policy));
  }
  await step("No two heads contradict each other", async () => {
    for (const [at, one] of heads.entries()) {
      const other = heads.slice(at + 1).find(({ origin, size }) => origin === one.origin && size === one.size);
      if (other && !equal(one.root, other.root))
        fail("consistency-fork", `two roots at size ${one.size}: ${toHex(one.root)} and ${toHex(other.root)}`);
    }
    return heads.length === 1 ? "there is one" : "different sizes, or the same root";
  });
  const sizes = new Set(heads.map(({ size }) => size));
  return finish({ ...files[0], name: files.map(({ name }) => name).join(", ") }, steps, {
    missing: sizes.size > 1 ? NOT_EXTENDED : notHere(found),
    good: "The head is signed by a key that you trust.",
    lead: heads.map(({ origin, size }) => `${origin} had ${plural(size, "leaf", "leaves")} when this head was signed.`),
    facts: [...witnessFacts(found), ...stampFacts(stamped)],
  });
}

const unknown = (file) => ({
  name: file.name,
  kind: file.kind,
  state: "failed",
  verdict: "Not a file that can be verified here.",
  steps: [],
});

// Time stamps over the text of this head; those over another are passed over.
async function stampSteps(steps, note, { trust, stamps, now }) {
  const found = [];
  for (const { name, bytes } of stamps) {
    const step = chain(steps);
    let stamp;
    await step(`RFC 3161: ${name} is over this head`, async () => {
      stamp = await readStamp(bytes, note.text);
      return `it says ${new Date(stamp.time).toISOString()}`;
    });
    await step(`RFC 3161: an authority that you trust signed ${name}`, async () => {
      if (!trust.roots.length) throw new Unchecked("no root certificate of an authority was given");
      const verified = await verifyStamp(stamp, trust.roots, now);
      found.push(verified);
      return `${verified.authority}, ${verified.time}`;
    });
  }
  return found;
}

const NOT_EXTENDED =
  "Whether the larger one extends the smaller one was not checked: add the whole ledger, or a proof that it grew.";

// What no browser can check of the witnesses' lines; null where every witness has one that was checked.
function notHere({ unchecked = [] } = {}) {
  if (!unchecked.length) return null;
  const names = unchecked.map(({ name }) => name).join(", ");
  return `Whether ${names} cosigned was not checked here: browsers have no ML-DSA-44. Use expunge verify.`;
}

const stampFacts = (stamped) =>
  stamped.map(({ time, authority }) => ["Time stamp", `existed at the latest ${moment(time)}, by ${authority}`]);

function ledgerText(tally, leaves) {
  const memories = plural(tally.memories, "memory", "memories");
  const dropped = tally.memoriesDropped ? `, and ${plural(tally.memoriesDropped, "dropped one")}` : "";
  return `${plural(leaves, "leaf", "leaves")} about ${memories}${dropped}: ${plural(tally.entriesAdmitted, "entry", "entries")} came in, ${count(tally.entriesErased)} erased, ${count(tally.entriesLive)} live now.`;
}

function ledgerFacts(tally, notes, found) {
  return [
    ...(notes.length ? [["Ledger", notes[0].head.origin]] : []),
    ["From", moment(found.leaves[0]?.stated.time ?? "")],
    ["To", moment(found.leaves.at(-1)?.stated.time ?? "")],
    ["Archived", count(tally.entriesArchived)],
    ["Forgotten", count(tally.entriesForgotten)],
    ["Subjects erased", `${count(tally.erasuresComplete)} completely, ${count(tally.erasuresIncomplete)} not`],
    ["Holds in force", count(tally.holdsInForce)],
    ["Requests open", `${count(tally.requestsOpen)}${tally.requestsOverdue ? `, of these ${count(tally.requestsOverdue)} overdue` : ""}`],
    ...mirrorFacts(tally),
    ...witnessFacts(found),
  ];
}

// Mirrors, and copies of erased entries by what was found of them; nothing where there never was a mirror.
function mirrorFacts(tally) {
  const parts = [
    [tally.mirrors, "there"],
    [tally.mirrorsPending, "erasures that one has not followed"],
    [tally.mirrorsGivenUp, "erasures that one never did"],
    [tally.copiesAbsent, "copies erased"],
    [tally.copiesInFiles, "copies erased, with bytes left in files"],
    [tally.copiesNotCheckable, "copies erased and not checkable"],
  ].filter(([number]) => number);
  return parts.length ? [["Mirrors", parts.map(([number, what]) => `${count(number)} ${what}`).join(", ")]] : [];
}

const WHOSE = { subject: "subject", case: "case", actor: "actor" };

async function aboutLeaf(statement, about) {
  if (about === null) return null;
  const found = await opened(statement, about.salt, about.text);
  return found.length
    ? { yes: true, text: `Yes: it names this as its ${found.map((what) => WHOSE[what]).join(" and ")}.` }
    : { yes: false, text: "No: nothing in it opens with this text and salt." };
}

async function aboutLedger(leaves, about) {
  if (about === null) return null;
  const found = [];
  for (const { index, statement } of leaves) {
    for (const what of await opened(statement, about.salt, about.text)) found.push(`leaf ${index} (${WHOSE[what]})`);
  }
  return found.length
    ? { yes: true, text: `Yes: ${found.join(", ")}.` }
    : { yes: false, text: `No: nothing in ${plural(leaves.length, "leaf", "leaves")} opens with this text and salt.` };
}

function finish({ name, kind }, steps, { missing = null, good = "", done = null, lead = null, facts = null, about = null }) {
  const failed = failureOf(steps);
  if (failed) return { name, kind, state: "failed", failed, steps };
  const state = missing === null ? "passed" : "partial";
  const verdict = missing === null ? good : `What was checked is genuine. ${missing}`;
  return { name, kind, state, verdict, done, lead, facts: facts ?? [], about, steps };
}
