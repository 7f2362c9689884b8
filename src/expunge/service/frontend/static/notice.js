// The states a view can be in besides its own: waiting, empty, and something wrong, said in words.

import { h, told } from "./element.js";
import { Problem } from "./session.js";

export const loading = (what) =>
  h(
    "p",
    { class: "loading", role: "status" },
    h("span", { class: "dot", "aria-hidden": "true" }),
    what ? `Loading ${what} …` : "Loading …",
  );

export function empty(title, ...more) {
  return h(
    "div",
    { class: "empty" },
    h("p", { class: "empty-title" }, title),
    more.map((part) => h("p", {}, told(part))),
  );
}

// A clause as a sentence of its own.
export function sentence(text) {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

const ADVICE = {
  0: "Check that `expunge serve` is running, then try again.",
  403: "Ask for a token with the scope that this needs: `expunge token create --help`.",
  412: "Somebody edited the memory in between. Nothing was done; look at it again.",
  503: "The store was busy with another edit. Try again in a moment.",
};

export function problem(error, retry = null) {
  // What is not the service's answer is a fault of this page, and belongs in the console too.
  if (!(error instanceof Problem)) console.error(error);
  const heading = error instanceof Problem ? error.title : "This page failed";
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, heading.replace(/\.$/, "")),
    h("p", {}, sentence(error.message)),
    error.fields?.length
      ? h(
          "ul",
          {},
          error.fields.map((one) => h("li", {}, `${one.where.slice(1).join(" ") || "body"}: ${one.message}`)),
        )
      : null,
    ADVICE[error.status] ? h("p", { class: "muted" }, told(ADVICE[error.status])) : null,
    retry ? h("p", {}, h("button", { type: "button", onclick: retry }, "Try again")) : null,
  );
}

// Runs a view's work: its result, or what went wrong, in its place.
export async function show(place, what, work) {
  place.replaceChildren(loading(what));
  try {
    const made = await work();
    if (made !== undefined) place.replaceChildren(...[made].flat());
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(problem(error, () => show(place, what, work)));
  }
}
