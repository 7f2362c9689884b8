// Elements without markup strings: text is always text, so nothing that an entry holds can become part of the page.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

let last = 0;
export const freshId = (stem) => `${stem}-${(last += 1)}`;

// A label and its control, tied together.
export function field(label, control, hint = null) {
  control.id ||= freshId("field");
  const note = hint && h("span", { class: "hint", id: `${control.id}-hint` }, withCode(hint));
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

// Text in which `commands` become code elements.
export const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

// A clause as a sentence of its own.
export function sentence(text) {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

// One row of a description list.
export const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

// A table that narrow screens show row by row. The roles say what CSS may no longer show.
export function table(kind, headings, body) {
  body.setAttribute("role", "rowgroup");
  const names = headings.map((name) =>
    h("th", { scope: "col", role: "columnheader" }, name || h("span", { class: "hidden" }, "Action")),
  );
  const head = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, names));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${kind}` },
    h("table", { class: `stacking ${kind}`, role: "table" }, head, body),
  );
}

export const row = (attributes, ...cells) => h("tr", { role: "row", ...attributes }, cells);
export const cell = (attributes, ...content) => h("td", { role: "cell", ...attributes }, content);

// A part of one whole, drawn; the number beside it is for everybody.
export function bar(fraction, kind = "") {
  const filled = h("span", { class: "filled" });
  filled.style.width = `${Math.max(0, Math.min(1, fraction)) * 100}%`;
  return h("span", { class: `bar ${kind}`, "aria-hidden": "true" }, filled);
}

// Said to those who cannot see it happen.
export function announce(text) {
  document.getElementById("status").textContent = text;
}
