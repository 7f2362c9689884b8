// The steps of a verification, one line each: passed, failed with the name of the failure, or not reached.

import { h, sentence } from "./element.js";

const SIGNS = { passed: ["✓", "passed"], failed: ["✗", "failed"], skipped: ["–", "not done"] };

export function verdict({ steps, failed }) {
  const logged = steps.at(-1).state === "passed";
  const good = logged
    ? "It verifies: signed by the trusted key, consistent in itself, and in the log."
    : "The receipt verifies: signed by the trusted key and consistent in itself. Its place in a log was not checked.";
  return h(
    "div",
    { class: `verdict ${failed ? "failed" : "passed"}`, role: failed ? "alert" : "status" },
    h(
      "p",
      {},
      h("span", { class: `sign ${failed ? "failed" : "passed"}`, "aria-hidden": "true" }, failed ? "✗" : "✓"),
      failed ? [" It does not verify: ", h("code", {}, failed.name), `. ${sentence(failed.detail)}`] : ` ${good}`,
    ),
  );
}

export function stepList(steps) {
  return h(
    "ol",
    { class: "steps" },
    steps.map((step) =>
      h(
        "li",
        { class: step.state },
        h("span", { class: `sign ${step.state}`, "aria-hidden": "true" }, SIGNS[step.state][0]),
        h(
          "div",
          {},
          h("p", {}, step.title, h("span", { class: "hidden" }, `: ${SIGNS[step.state][1]}`)),
          h(
            "p",
            { class: "muted detail" },
            step.name ? h("code", {}, step.name) : null,
            step.name ? " " : null,
            step.detail,
          ),
        ),
      ),
    ),
  );
}
