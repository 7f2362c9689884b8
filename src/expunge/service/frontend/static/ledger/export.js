// Lines of the ledger as files for other programs.

const COLUMNS = ["index", "time", "kind", "state", "name", "memory", "edit", "applied", "live", "case", "actor", "parts"];

// What a spreadsheet would take for a formula is marked as text.
function csvCell(value) {
  const text = value === null || value === undefined ? "" : Array.isArray(value) ? value.join(" ") : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const asCsv = (leaves) =>
  [COLUMNS.join(","), ...leaves.map((leaf) => COLUMNS.map((name) => csvCell(leaf[name])).join(","))].map((line) => `${line}\r\n`).join("");

export const asJsonLines = (leaves) => leaves.map((leaf) => `${JSON.stringify(leaf)}\n`).join("");
