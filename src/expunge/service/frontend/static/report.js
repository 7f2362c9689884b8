// The audit report, which is a document of its own: framed here, or in a tab of its own.

import { h } from "./element.js";
import { get, session, url } from "./session.js";
import { empty } from "./view_state.js";

export async function view(_, signal) {
  return {
    title: "Audit report",
    content: h("div", { class: "stack" }, h("h1", {}, "Audit report"), await report(signal)),
  };
}

async function report(signal) {
  if (!session.about.report)
    return empty(
      "No report is served here.",
      "Make one with `expunge audit`, and serve it with `expunge serve --report`.",
    );
  const address = url((await get("/v1/report", signal)).url);
  return [
    h(
      "p",
      {},
      "Every experiment of the paper, run again on this code. ",
      h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, "Open it in a tab of its own"),
      ". The link is good for five minutes.",
    ),
    h("iframe", { class: "report", src: address, title: "Audit report" }),
  ];
}
