// Erasing a person: the request is sent, and sent again under its key until there is an answer, and its progress shown.

import { announce, cell, h, replace, row, table } from "../element.js";
import { plural } from "../numbers.js";
import { get, Problem, post } from "../session.js";
import { untilAnswered } from "./lost_answer.js";
import { drop, endAt } from "./tab_erasures.js";
import { largeName } from "./typed_name.js";

const EVERY = 300; // milliseconds between looks at the progress

// The result of the erasure that a record of this tab stands for. What ends it for good without one is thrown.
export async function carryOut(record, element, signal) {
  const shown = progressOf(record.order, record.subject);
  replace(element, shown.element);
  try {
    const result = await untilAnswered(() => askOnce(record, shown, element, signal), element, signal);
    endAt(record.key, result.index ?? -1);
    return result;
  } catch (error) {
    // Where others would go now, nothing was done; whatever else failed is taken up again under the same key.
    if ([403, 409, 412, 422].includes(error.status)) drop(record.key);
    throw error;
  }
}

// The same request gets the same answer: for a page that was loaded again.
export const answerOf = (record) => askOnce(record, progressOf([], record.subject), null, undefined);

async function askOnce(record, shown, element, signal) {
  const headers = { "Idempotency-Key": record.key, Prefer: "wait=1" };
  if (record.digest) headers["If-Match"] = `"${record.digest}"`;
  if (record.case) headers["Expunge-Case"] = record.case;
  let job = await post("/v1/erasures", { subject: record.subject }, headers, signal);
  while (job.state === "queued" || job.state === "running") {
    if (element !== null && shown.element.parentElement === null) replace(element, shown.element);
    shown.at(job.progress.done);
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    job = await get(`/v1/jobs/${job.id}`, signal);
  }
  if (job.state === "done") return job.result;
  if (job.problem) throw Object.assign(new Problem(job.problem.status, job.problem), { isAnswer: true });
  // Its worker stopped; the next request takes it up.
  throw new Problem(503, { title: "Interrupted", detail: "The erasure was interrupted, and goes on." });
}

// A line per memory, in the order in which they are edited.
function progressOf(order, subject) {
  const states = order.map(() => cell({ class: "muted" }, "waits"));
  const lines = order.map((name, at) => row({}, cell({}, name), states[at]));
  const count = h("p", { role: "status" }, "Erasing …");
  const bar = h("progress", { max: order.length || 1, value: 0, "aria-label": "Memories done" });
  const element = h(
    "section",
    { class: "card stack", "aria-label": "Progress" },
    largeName(subject),
    count,
    bar,
    order.length ? h("div", { class: "steps-of-erasure" }, table("by-memory", ["Memory", "State"], h("tbody", {}, lines))) : null,
    h("p", { class: "muted" }, "You may close this page: the erasure goes on, and its receipts are in the ledger."),
  );
  let last = -1;
  function at(done) {
    if (done === last) return;
    last = done;
    bar.value = done;
    count.textContent = `${done} of ${plural(order.length, "memory", "memories")} done`;
    for (const [place, state] of states.entries())
      state.textContent = place < done ? "done" : place === done ? "erasing …" : "waits";
    const list = element.querySelector(".steps-of-erasure");
    if (list && lines[done]) list.scrollTop = lines[done].offsetTop - list.clientHeight / 2;
    announce(count.textContent);
  }
  return { element, at };
}
