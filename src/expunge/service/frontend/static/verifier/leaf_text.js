// What one verified leaf says, for people: sentences first, then who, when, how many, where, and whose key.

import { moment, plural } from "../numbers.js";
import { covers, eventText, notCovered, receiptText } from "../receipt_text.js";

export function leafLead({ isEvent, stated }) {
  if (isEvent) return [eventText(stated)];
  return [receiptText(stated), covers(stated), `Not covered: ${notCovered(stated).join("; ")}.`];
}

export function leafFacts({ isEvent, stated, signer }, place, stamped, certificate = null) {
  const names = certificate?.names ?? {};
  const named = (uuid) => (Object.hasOwn(names, uuid) ? `${names[uuid]} (${uuid}; the name is not signed)` : uuid);
  const removed = isEvent ? null : stated.applied.count;
  const revealed = Object.entries(certificate?.revealed ?? {}).filter(([, shown]) => shown !== null);
  return [
    ...revealed.map(([what, { text }]) => [`${what[0].toUpperCase()}${what.slice(1)}`, text]),
    ["When", `${moment(stated.time)}, by the signer's clock`],
    ...(removed ? [["How many", plural(removed, "entry", "entries")]] : []),
    ["Memory", stated.memory === null ? "the whole store" : named(stated.memory)],
    ...(place.head ? [["Ledger", `${place.head.origin}, leaf ${place.index} of ${place.head.size}`]] : []),
    ["Signed by", signer ?? "unknown"],
    ...witnessFacts(place),
    ...stamped.map(({ time, authority }) => ["Time stamp", `existed at the latest ${moment(time)}, by ${authority}`]),
  ];
}

export const witnessFacts = ({ cosigned = [], unchecked = [] }) => [
  ...cosigned.map(({ name, time }) => ["Cosigned by", `${name}, ${moment(Number(time) * 1000)}`]),
  ...unchecked.map(({ name }) => ["Not checked here", `the line by ${name}, which is ML-DSA-44`]),
];
