// What one verified leaf says, for people: sentences first, then who, when, how many, where, and whose key.

import { moment, plural } from "../numbers.js";
import { covers, eventText, notCovered, receiptText, stateOf, whatText } from "../receipt_text.js";

export function leafLead({ isEvent, stated }) {
  if (isEvent) return [eventText(stated)];
  return [receiptText(stated), covers(stated), `Not covered: ${notCovered(stated).join("; ")}.`];
}

export function leafFacts({ isEvent, stated, signer }, place, stamped, certificate = null) {
  const names = certificate?.names ?? {};
  const named = (uuid) => (Object.hasOwn(names, uuid) ? `${names[uuid]} (${uuid}; the name is not signed)` : uuid);
  const number = isEvent ? (stated.facts.memories ?? []).reduce((sum, { entries = 0 }) => sum + entries, 0) : stated.applied.count;
  const erasing = stateOf({ isEvent, stated }) !== null;
  const revealed = Object.entries(certificate?.revealed ?? {}).filter(([, shown]) => shown !== null);
  const told = (what) => revealed.filter(([one]) => one === what).map(([, { text }]) => [LABELS[what], text]);
  return [
    ...told("subject"),
    ...(told("subject").length ? [] : whose({ isEvent, stated })),
    ["What", whatText({ isEvent, stated })],
    ["When", `${moment(stated.time)}, by the signer's clock`],
    ...(erasing ? [["How many", plural(number, "entry", "entries")]] : []),
    ...(place.head ? [["Store", place.head.origin]] : []),
    ["Memory", stated.memory === null ? everywhere(stated, named) : named(stated.memory)],
    ...told("case"),
    ...told("actor"),
    ...(place.head ? [["Ledger", `leaf ${place.index} of ${place.head.size}`]] : []),
    ["Signed by", signer ?? "unknown"],
    ...witnessFacts(place),
    ...stamped.map(({ time, authority }) => ["Time stamp", `existed at the latest ${moment(time)}, by ${authority}`]),
  ];
}

const LABELS = { subject: "Who", case: "Case", actor: "Erased by" };

// Of a person's erasure that names nobody: a commitment, which a salt opens.
const whose = ({ isEvent, stated }) =>
  isEvent && stated.event === "subject_erased" ? [["Who", "not named here: give the name and the salt to see whether it is you"]] : [];

const LISTED = 6;

function everywhere({ facts }, named) {
  const memories = (facts.memories ?? []).map((part) => named(part.memory));
  const rest = memories.length > LISTED ? `, and ${memories.length - LISTED} more` : "";
  return memories.length ? `the whole store: ${memories.slice(0, LISTED).join(", ")}${rest}` : "the whole store";
}

export const witnessFacts = ({ cosigned = [], unchecked = [] }) => [
  ...cosigned.map(({ name, time }) => ["Cosigned by", `${name}, ${moment(Number(time) * 1000)}`]),
  ...unchecked.map(({ name }) => ["Not checked here", `the line by ${name}, which is ML-DSA-44`]),
];
