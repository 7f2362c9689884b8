// An edit whose answer does not come: it may have been done or not. The same request under the same idempotency key is
// asked again until there is an answer, which cannot do it twice; nothing is claimed before that.

import { h, replace } from "../element.js";
import { plural } from "../numbers.js";

const LONGEST = 15; // seconds between two tries
const LOST = [0, 502, 503, 504];

const aborted = (signal) => new DOMException("the view was left", "AbortError");

// `element` says what is going on as long as there is no answer.
export async function untilAnswered(ask, element, signal) {
  for (let wait = 1; ; wait = Math.min(2 * wait, LONGEST)) {
    try {
      return await ask();
    } catch (error) {
      // What a job ended with is an answer, whatever its status.
      if (error.isAnswer || !LOST.includes(error.status)) throw error;
      await pause(wait, element, signal);
    }
  }
}

async function pause(seconds, element, signal) {
  await new Promise((resolve, reject) => {
    const timer = setTimeout(done, seconds * 1000);
    function done() {
      clearTimeout(timer);
      removeEventListener("online", done);
      resolve();
    }
    addEventListener("online", done);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      reject(aborted(signal));
    });
    replace(
      element,
      h(
        "div",
        { class: "problem unknown", role: "alert" },
        h("p", { class: "problem-title" }, "No answer yet: it may have been done, or not"),
        h(
          "p",
          {},
          "The request was sent, and no answer came. Do not begin again: this page asks for the answer, under the same number, so that nothing is done twice.",
        ),
        h("p", { class: "muted" }, `It asks again in ${plural(seconds, "second")}, and as soon as the network is back.`),
        h("div", {}, h("button", { type: "button", onclick: done }, "Ask now")),
      ),
    );
  });
  replace(element, h("p", { class: "loading", role: "status" }, "Asking for the answer …"));
}
