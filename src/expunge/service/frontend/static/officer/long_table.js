// A table that begins with its first rows, so that what stands below it is not far away.

import { h, table } from "../element.js";
import { count } from "../numbers.js";

const FIRST = 8;

export function longTable(kind, headings, rows) {
  // One more row is no longer than the button.
  const rest = rows.length > FIRST + 1 ? rows.slice(FIRST) : [];
  for (const one of rest) one.hidden = true;
  const more = h("button", { type: "button", class: "no-print" }, `Show all ${count(rows.length)}`);
  more.addEventListener("click", () => {
    for (const one of rest) one.hidden = false;
    more.remove();
  });
  return [table(kind, headings, h("tbody", {}, rows)), rest.length ? h("div", {}, more) : null];
}

// Some names, and how many more there are.
export function someOf(names, shown = 4) {
  const sorted = [...names].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  return sorted.length > shown + 1 ? `${sorted.slice(0, shown).join(", ")} and ${count(sorted.length - shown)} more` : sorted.join(", ");
}
