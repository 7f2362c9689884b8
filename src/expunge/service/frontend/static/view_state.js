// What a view shows besides its content: that it is loading, that it is empty, or a problem.

import { h, sentence, withCode } from "./element.js";
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
    more.map((part) => h("p", {}, withCode(part))),
  );
}

const ADVICE = {
  0: "Try again when the network is back. If it is, ask whoever runs the service.",
  403: "Ask for a token with the scope that this needs: `expunge token create --help`.",
  412: "Somebody edited the memory in between. Nothing was done; look at it again.",
  503: "The store was busy with another edit. Try again in a moment.",
};

export function problem(error, retry = null) {
  // An error that is not a response of the service is a defect of this page, and is logged to the console too.
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
    ADVICE[error.status] ? h("p", { class: "muted" }, withCode(ADVICE[error.status])) : null,
    retry ? h("p", {}, h("button", { type: "button", onclick: retry }, "Try again")) : null,
  );
}

// Runs an asynchronous function and shows its result, or the problem, in an element.
export async function show(element, what, load) {
  element.replaceChildren(loading(what));
  try {
    const content = await load();
    if (content !== undefined) element.replaceChildren(...[content].flat());
  } catch (error) {
    if (error.name !== "AbortError") element.replaceChildren(problem(error, () => show(element, what, load)));
  }
}
