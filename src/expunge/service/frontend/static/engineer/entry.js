// One entry: what it holds, what it weighs, and what removing it now would be.

import { fact, h, replace } from "../element.js";
import { GROUPS, mark } from "../groups.js";
import { percent, plural, quantity } from "../numbers.js";
import { addressOf, get, memoryPath, session } from "../session.js";
import { passArguments } from "../view_arguments.js";
import { problem, show } from "../view_state.js";

export function entryPanel(memory, point, signal) {
  const payload = h("div", { class: "payload" });
  const certificate = h("div", {});
  const base = `#/m/${addressOf(memory)}`;
  const live = point.group !== "archived";
  show(payload, "what it holds", async () =>
    content(await get(memoryPath(memory, `/entries/${encodeURIComponent(point.id)}`), signal)),
  );
  return h(
    "div",
    { class: "stack" },
    h("h2", { class: "entry-name" }, mark(point.group), ` ${point.id}`),
    h(
      "dl",
      { class: "facts" },
      point.subject ? fact("Subject", point.subject) : null,
      fact("Group", `${GROUPS[point.group].label}: ${GROUPS[point.group].about}`),
      live
        ? fact(
            "Weight",
            `${percent(point.coefficient)} of the whole, ${percent(point.coefficient / memory.cap)} of the cap`,
          )
        : null,
      live
        ? fact("Distance", `${quantity(point.slack)} from the boundary: ${place(point)}`)
        : fact("Warranty left", `${percent(point.fraction)} (${point.status})`),
    ),
    payload,
    h(
      "div",
      { class: "row" },
      live
        ? h(
            "button",
            { type: "button", onclick: () => certify(certificate, memory, point, signal) },
            "What would removing it be?",
          )
        : null,
      live
        ? h("a", { class: "button", href: `${base}/ask`, onclick: () => passArguments({ like: point.id }) }, "Ask with its key")
        : null,
      session.may("erase")
        ? h("a", { class: "button danger", href: `${base}/erase`, onclick: () => passArguments({ id: point.id }) }, "Delete …")
        : null,
      session.may("erase") && point.subject
        ? h(
            "a",
            {
              class: "button danger",
              href: session.isStoreWide ? "#/erase" : `${base}/erase`,
              onclick: () => passArguments({ subject: point.subject }),
            },
            session.isStoreWide ? "Erase this person everywhere …" : "Erase its subject in this memory …",
          )
        : null,
    ),
    certificate,
  );
}

function place(point) {
  if (point.group === "margin") return "on it";
  return point.group === "reserve" ? "inside" : "outside";
}

export function content(entry) {
  const rows = [];
  if (entry.payload !== null && entry.payload !== undefined) rows.push(fact("Payload", readable(entry.payload)));
  if (entry.value) rows.push(fact("Value", vector(entry.value)));
  if (entry.key) rows.push(fact("Key", vector(entry.key)));
  return h("dl", { class: "facts" }, rows);
}

export function readable(payload) {
  if (typeof payload === "string") return payload;
  if (payload?.base64 !== undefined && Object.keys(payload).length === 1)
    return `${plural(Math.floor((payload.base64.length * 3) / 4), "byte")}, not text`;
  if (payload && typeof payload === "object" && !Array.isArray(payload)) {
    return h(
      "dl",
      { class: "facts inner" },
      Object.entries(payload).map(([name, value]) =>
        fact(name, typeof value === "object" ? JSON.stringify(value) : String(value)),
      ),
    );
  }
  return JSON.stringify(payload);
}

export function vector(numbers) {
  const shown = numbers.slice(0, 12).map(quantity).join(", ");
  return h("span", { class: "vector" }, numbers.length > 12 ? `${shown}, … (${numbers.length} in all)` : shown);
}

async function certify(element, memory, point, signal) {
  try {
    const found = await get(memoryPath(memory, `/certificates/${encodeURIComponent(point.id)}`), signal);
    replace(element, found.kind === "reserve" ? reserve(found) : decrement(found));
  } catch (error) {
    if (error.name !== "AbortError") replace(element, problem(error));
  }
}

function reserve(found) {
  return h(
    "div",
    { class: "note" },
    h(
      "p",
      {},
      h("b", {}, "No answer would change. "),
      found.proved
        ? "Its weight is proved to be exactly zero, from the keys themselves."
        : "Its weight is zero, though that is not proved; pruning would keep it.",
    ),
    h(
      "p",
      { class: "muted" },
      `It lies inside, ${quantity(found.slack)} from the boundary; largest change measured at the memory's own keys: ${quantity(found.readout_change)}. Holds until the next edit.`,
    ),
  );
}

function decrement(found) {
  return h(
    "div",
    { class: "note" },
    h(
      "p",
      {},
      h("b", {}, "The memory would be solved again. "),
      "The result equals a fresh fit of the other entries at the same cap.",
    ),
    h(
      "p",
      { class: "muted" },
      `Smallest eigenvalue over the margin ${quantity(found.smallest_eigenvalue)}, nearest two keys ${quantity(found.nearest)} widths apart${found.unique ? "" : `, ${plural(found.duplicates, "duplicate key")}`}.`,
    ),
  );
}
