// One finding as a card: the verdict, what was verified in plain words, then every step under technical details.

import { fact, h, sentence, withCode } from "../element.js";
import { KINDS } from "../verify/files.js";
import { stateBadge } from "../receipt_text.js";
import { stepList } from "../verification_steps.js";
import { MEANINGS } from "./meanings.js";

const SIGNS = { passed: ["✓", "Verified."], partial: ["–", "Verified in part."], failed: ["✗", "NOT verified."] };

export function findingView(finding) {
  const { name, kind, state, verdict, failed, done, lead, facts, about, steps } = finding;
  const [sign, word] = SIGNS[state];
  return h(
    "section",
    { class: "card stack finding", "aria-label": name },
    h("h2", {}, name, h("span", { class: "muted kind-of" }, ` ${KINDS[kind]}`)),
    h(
      "div",
      { class: `verdict ${state}`, role: state === "failed" ? "alert" : "status" },
      h("p", {}, h("span", { class: `sign ${state}`, "aria-hidden": "true" }, sign), " ", h("strong", {}, word), " "),
      failed ? reason(failed) : h("p", {}, verdict),
    ),
    about === undefined || about === null
      ? null
      : h("p", { class: `about ${about.yes ? "yes" : "no"}` }, h("strong", {}, "Is this about the text that you gave? "), about.text),
    done === "refused" || done === "partly_refused" ? stateBadge(done) : null,
    (lead ?? []).map((text, at) => h("p", { class: at ? "" : "lead" }, text)),
    facts?.length ? h("dl", { class: "facts" }, facts.map(([label, value]) => fact(label, value))) : null,
    steps.length
      ? h("details", { open: state === "failed" }, h("summary", {}, "Technical details"), stepList(steps))
      : null,
  );
}

// The code, what it means, and what was found. What the file says is not shown: nobody vouches for it.
function reason({ name, detail }) {
  return [
    h("p", {}, h("code", {}, name), MEANINGS[name] ? [": ", withCode(MEANINGS[name])] : null),
    h("p", {}, sentence(detail)),
  ];
}
