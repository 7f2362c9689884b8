// One receipt: a sentence first, then whether it verifies here and now, then every field, and the raw text on demand.
// What is shown is decoded from the signed envelope by this page; the service's own reading of it is not used.

import { fact, h, replace } from "../element.js";
import { pinnedKey, storeKeys } from "./ledger_head.js";
import { count, moment, quantity } from "../numbers.js";
import { covers, eventText, notCovered, receiptText, stateBadge, stateOf, whatText } from "../receipt_text.js";
import { certificateActions, saveFile } from "../officer/certificate.js";
import { get } from "../session.js";
import { stepList, verdict } from "../verification_steps.js";
import { toUtf8 } from "../verify/encoding.js";
import { parseEnvelope, parseStatement } from "../verify/envelope.js";
import { EVENT_TYPE, parseEvent } from "../verify/event.js";
import { VerificationError } from "../verify/failure.js";
import { parseReceipt } from "../verify/receipt.js";
import { unsupportedReason } from "../verify/signing.js";
import { verifyLeaf } from "../verify/steps.js";
import { problem } from "../view_state.js";

export async function view([index], signal) {
  const content = h(
    "div",
    { class: "stack" },
    h("p", { class: "crumbs" }, h("a", { href: "#/ledger" }, "Ledger"), " / "),
    h("h1", {}, `Receipt ${index}`),
    await receiptPanel(Number(index), signal),
  );
  return { title: `Receipt ${index}`, content };
}

// Without its certificate where the view around it has that.
export async function receiptPanel(index, signal, withCertificate = true) {
  const leaf = await get(`/v1/receipts/${index}`, signal);
  const checks = h("div", { class: "stack" }, h("p", { class: "muted" }, "Verifying …"));
  check(checks, leaf);
  const { text, fields } = decoded(leaf);
  return h(
    "section",
    { class: "card receipt", "aria-label": `Receipt ${index}` },
    h(
      "div",
      { class: "receipt-parts" },
      text,
      h("div", { class: "stack checked" }, h("h2", {}, "Checked in this browser"), checks),
      fields,
    ),
    withCertificate
      ? h("div", { class: "stack" }, h("h2", {}, "Certificate for the person, or for a regulator"), certificateActions(index))
      : null,
    raw(leaf),
  );
}

async function check(element, leaf) {
  try {
    const cannot = await unsupportedReason();
    if (cannot !== null) return replace(element, h("p", { class: "muted" }, cannot));
    const { envelope, inclusion } = leaf;
    const result = await verifyLeaf({ envelope, proof: inclusion.text, trust: storeKeys(), heads: pinnedKey() });
    return replace(
      element,
      verdict(result),
      stepList(result.steps),
      h(
        "p",
        { class: "muted" },
        "The key of the head is the one that this browser saw first from this store; the keys of receipts are those that the store names. To trust less, ",
        h("a", { href: "#/verify" }, "verify with a key from elsewhere"),
        ".",
      ),
    );
  } catch (error) {
    return replace(element, problem(error));
  }
}

// What the envelope says, in a sentence and by its fields, or why it cannot be read.
function decoded(leaf) {
  try {
    const statement = parseStatement(parseEnvelope(toUtf8(leaf.envelope)).payload);
    if (statement.type === EVENT_TYPE) return event(leaf, parseEvent(statement));
    return receipt(leaf, parseReceipt(statement));
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    return {
      text: h(
        "div",
        { class: "problem" },
        h("p", { class: "problem-title" }, "This receipt cannot be read"),
        h("p", {}, `${error.name}: ${error.message}`),
      ),
    };
  }
}

function event(leaf, predicate) {
  const state = stateOf({ isEvent: true, stated: predicate });
  return {
    text: h("div", { class: "stack" }, state && stateBadge(state), h("p", { class: "lead" }, eventText(predicate))),
    fields: h(
      "dl",
      { class: "facts" },
      fact("Event", whatText({ isEvent: true, stated: predicate })),
      fact("Time", moment(predicate.time)),
      fact("Memory", leaf.name ?? predicate.memory ?? "the whole store"),
      ...request(predicate.request),
      ...known(leaf),
    ),
  };
}

function receipt(leaf, found) {
  const sentences = [
    found.outcome === "refused" ? stateBadge("refused", found.action === "deletion") : null,
    h("p", { class: "lead" }, receiptText(found)),
    h("p", {}, covers(found)),
    h("p", { class: "muted" }, "Not covered: ", notCovered(found).join("; "), "."),
  ];
  return {
    text: h("div", { class: "stack" }, sentences),
    fields: h(
      "details",
      { open: true },
      h("summary", {}, "Every field"),
      h(
        "dl",
        { class: "facts wide" },
        fact("Memory", `${leaf.name ?? "dropped since"} `, h("code", {}, found.memory)),
        fact("Edit", count(found.edit)),
        fact("Time", `${moment(found.time)}, by the signer's clock`),
        fact("Action, outcome", `${found.action}, ${found.outcome}`),
        fact("Entries before", sizes(found.entries.before)),
        fact("Entries after", sizes(found.entries.after)),
        fact("State before", found.before === null ? "none" : h("code", {}, found.before)),
        fact("State after", h("code", {}, found.after)),
        fact("Cap, width", `${quantity(found.problem.cap)}, ${quantity(found.problem.sigma)}`),
        fact("Dimension", count(found.problem.dimension)),
        fact("Check", "passed: every error is within 1e−9"),
        found.refusal && found.refusal.measured !== null
          ? fact("Refused at", `${count(found.refusal.measured)}, allowed ${count(found.refusal.allowed)}`)
          : null,
        fact("Solver", `${found.solver.name} ${found.solver.version}`),
        ...certificates(found),
        found.refusal?.holds.length ? fact("Holds", found.refusal.holds.map(count).join(", ")) : null,
        fact("Entries named", commitments(found.applied)),
        ...request(found.request),
        ...known(leaf),
      ),
    ),
  };
}

// Certificates of pruned entries that the edit changed; none are listed where none were.
function certificates(found) {
  const parts = { ended: "Ended for good", expired: "Expired", renewed: "Renewed", reactivated: "Back from the archive" };
  return Object.entries(parts)
    .filter(([part]) => found[part].count)
    .map(([part, label]) => fact(label, commitments(found[part])));
}

// Which request the receipt answers, and commitments to its case and actor where it has them.
function request(found) {
  const parts = { id: "Request", case: "Case", actor: "Actor" };
  return Object.entries(parts)
    .filter(([part]) => found[part] !== null)
    .map(([part, label]) => fact(label, h("code", {}, found[part])));
}

// What the ledger commits to, in words, where the store still has them and the token may read them.
const known = ({ case: reference, actor }) => [
  reference ? fact("Case, in words", reference) : null,
  actor ? fact("Actor, in words", actor) : null,
];

const sizes = (size) => `${count(size.live)} live, ${count(size.pruned)} pruned`;

function commitments(listed) {
  if (!listed.commitments.length) return listed.count ? `${count(listed.count)}, listed in the leaves that follow` : "none";
  const shown = listed.commitments.slice(0, 8).map((digest) => h("li", {}, h("code", {}, digest)));
  return [h("ul", {}, shown), listed.count > shown.length ? `and ${count(listed.count - shown.length)} more` : null];
}

function raw(leaf) {
  return h(
    "details",
    { class: "raw" },
    h("summary", {}, "Raw text"),
    rawText("Statement", JSON.stringify(leaf.statement, null, 2)),
    rawText("Envelope", leaf.envelope, `receipt-${leaf.index}.json`),
    rawText("Proof of inclusion", leaf.inclusion.text, `receipt-${leaf.index}.tlog-proof`),
    rawText("Key of the log", leaf.log_key, "log.vkey"),
  );
}

function rawText(name, content, file = null) {
  const save = () => saveFile(file, new Blob([content], { type: "application/octet-stream" }));
  return h(
    "div",
    {},
    h(
      "div",
      { class: "row spread" },
      h("h3", {}, name),
      file === null ? null : h("button", { type: "button", class: "quiet", onclick: save }, `Save ${file}`),
    ),
    h("pre", { tabindex: "0", role: "region", "aria-label": name }, content),
  );
}
