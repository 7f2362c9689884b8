// One erasure of a person, at its own address: what was done where, the certificate, and the proof.

import { certificateActions } from "./certificate.js";
import { cell, fact, h, row } from "../element.js";
import { receiptPanel } from "../ledger/receipt.js";
import { count, moment, plural, short } from "../numbers.js";
import { stateBadge, stateOfParts } from "../receipt_text.js";
import { get, session } from "../session.js";
import { toUtf8 } from "../verify/encoding.js";
import { parseEnvelope, parseStatement } from "../verify/envelope.js";
import { parseEvent } from "../verify/event.js";
import { answerOf } from "./carry_out.js";
import { longTable } from "./long_table.js";
import { erasureAt } from "./tab_erasures.js";
import { largeName, spelled } from "./typed_name.js";

export const addressOfErasure = (index) => `#/erased/${index}`;

export async function view([address], signal) {
  const index = Number(address);
  const leaf = await get(`/v1/receipts/${index}`, signal);
  const { event, facts, time } = parseEvent(parseStatement(parseEnvelope(toUtf8(leaf.envelope)).payload));
  if (event !== "subject_erased") {
    location.replace(`#/ledger/${index}`);
    return { title: `Leaf ${index}`, content: h("h1", {}, `Leaf ${index}`) };
  }
  const person = await knownHere(index);
  const memories = facts.memories.map((part) => ({
    memory: leaf.names[part.memory] ?? "dropped since",
    outcome: part.outcome,
    index: part.leaf,
    erased: part.entries,
    reason: person?.result.memories.find(({ uuid }) => uuid === part.memory)?.reason ?? null,
  }));
  const content = h(
    "div",
    { class: "stack officer erasure" },
    h("p", { class: "crumbs no-print" }, h("a", { href: "#/ledger?sort=persons" }, "Erasures of persons"), " / "),
    h("h1", {}, `Erasure of a person, receipt ${index}`),
    summary({ index, time, memories, person, leaf }),
    h(
      "section",
      { class: person ? "card stack" : "card stack no-print", "aria-label": "Certificate" },
      h("h2", {}, "Certificate"),
      h("p", { class: "no-print" }, "For the person, or for a regulator: it proves what was erased, and can be verified without this service."),
      h("div", { class: "no-print stack" }, certificateActions(index, person && { subject: person.subject, salt: person.result.salt })),
      h("div", { class: "no-print" }, h("button", { type: "button", onclick: () => print() }, "Print this page")),
      person ? salt(person.result.salt) : null,
    ),
    byMemory(memories),
    h("details", { class: "technical" }, h("summary", {}, "Technical details"), await receiptPanel(index, signal, false)),
    h("p", { class: "no-print" }, h("a", { class: "button", href: "#/erase" }, "Erase another person")),
  );
  return { title: `Erasure ${index}`, content };
}

// Whom it was about, where this tab erased them: the same request gets the same answer, with the salt.
async function knownHere(index) {
  const record = erasureAt(index);
  if (!record) return null;
  try {
    return { ...record, result: await answerOf(record) };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // The service keeps answers for a while only; what is in the ledger is there.
    return null;
  }
}

const DONE = { refused: "Refused", failed: "Not done", noop: "Nothing to do" };

function summary({ index, time, memories, person, leaf = null }) {
  const reference = person?.case ?? leaf?.case;
  const state = stateOfParts(memories);
  const all = memories.reduce((sum, part) => sum + part.erased, 0);
  return h(
    "section",
    { class: "card stack", "aria-label": "Erasure" },
    person ? largeName(person.subject) : null,
    stateBadge(state),
    h("p", { class: "lead" }, sentenceOf(state, all, memories.length)),
    h(
      "dl",
      { class: "facts" },
      person ? null : fact("Who", "not named in the ledger: only a salt shows whom it was about"),
      reference ? fact("Case", reference) : null,
      leaf?.actor ? fact("Done by", leaf.actor) : null,
      time ? fact("When", moment(time)) : null,
      fact("Store", session.about.origin),
      index === null ? null : fact("Receipt", h("a", { href: `#/ledger/${index}` }, `${count(index)}, in the ledger`)),
    ),
    person?.result.waiting ? h("p", { class: "note" }, `Not yet gone from the files: ${person.result.waiting}.`) : null,
  );
}

// What was refused comes first.
function byMemory(memories) {
  const line = (part) =>
    row(
      {},
      cell({}, h("b", {}, part.memory)),
      cell({}, plural(part.erased, "entry", "entries")),
      cell({ class: DONE[part.outcome] ? "kind refused" : "" }, DONE[part.outcome] ?? "Erased", part.reason ? `: ${part.reason}` : ""),
      cell({}, part.index === null ? "" : h("a", { href: `#/ledger/${part.index}` }, `Receipt ${part.index}`)),
    );
  const ordered = [...memories].sort((one, other) => Boolean(DONE[other.outcome]) - Boolean(DONE[one.outcome]));
  return h(
    "section",
    { class: "card stack", "aria-label": "Memory by memory" },
    h("h2", {}, "Memory by memory"),
    longTable("by-memory", ["Memory", "Erased", "What was done", "Receipt"], ordered.map(line)),
  );
}

function sentenceOf(state, all, memories) {
  const where = plural(memories, "memory", "memories");
  if (state === "refused") return `Nothing was erased: it was refused in ${where}. Whoever placed the holds can release them.`;
  if (state === "nothing") return "There was nothing to erase.";
  if (state === "partly_refused") return `${plural(all, "entry was", "entries were")} erased. In some memories it was refused: this person is still in the store.`;
  return `${plural(all, "entry was", "entries were")} erased in ${where}. Nothing of this person is left in the store.`;
}

function salt(text) {
  const copied = h("span", { class: "muted", role: "status" });
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    copied.textContent = "Copied";
  };
  return h(
    "dl",
    { class: "facts" },
    fact(
      "Salt",
      h("code", { title: text }, short(text)),
      " ",
      h("button", { type: "button", class: "quiet no-print", onclick: copy }, "Copy"),
      copied,
    ),
    fact(
      "",
      h("span", { class: "muted" }, "The secret number that shows, with the name, whom this erasure was about. Save the certificate with the name now: it holds this number, and after this tab is closed nobody can put the name on a certificate any more."),
    ),
  );
}

// The same where the token may not read the ledger: what the answer itself said.
export function erasureResult({ result, person }) {
  if (result.index === null)
    return h(
      "section",
      { class: "card stack", "aria-label": "Erasure" },
      largeName(person.subject),
      h("p", {}, `No entry belongs to ${spelled(person.subject)}. Nothing was written.`),
    );
  const memories = result.memories.map((part) => ({ ...part, erased: part.applied.length }));
  return [
    summary({ index: null, time: null, memories, person: { ...person, result } }),
    byMemory(memories),
    h("section", { class: "card", "aria-label": "Salt" }, salt(result.salt)),
  ];
}
