// What waits or stands in the way of erasures: requests with their due dates, legal holds, and entries that have ended.

import { announce, cell, field, h, replace, row, table } from "../element.js";
import { count, moment, plural } from "../numbers.js";
import { addressOf, get, post, remove } from "../session.js";
import { empty, problem } from "../view_state.js";
import { twoSteps } from "./two_steps.js";
import { spelled } from "./typed_name.js";

const VIEWS = { requests: ["Requests", requests], retention: ["Retention", retention], holds: ["Holds", holds] };
const BESIDE = ["requests", "retention"];

export async function view([which], signal) {
  const [title, draw] = VIEWS[which];
  const place = h("div", { class: "stack" });
  // What was done is said above the list, which is loaded again.
  const again = async (done = null) => {
    try {
      replace(place, done === null ? null : h("p", { class: "done", role: "status" }, done), await draw(signal, again));
      if (done !== null) announce(done);
    } catch (error) {
      if (error.name !== "AbortError") replace(place, problem(error, () => again()));
    }
  };
  await again();
  const content = h(
    "div",
    { class: "stack officer" },
    h("h1", {}, title),
    BESIDE.includes(which)
      ? h(
          "nav",
          { class: "subnav", "aria-label": "What waits" },
          BESIDE.map((name) => h("a", { href: `#/${name}`, "aria-current": name === which ? "page" : null }, VIEWS[name][0])),
        )
      : null,
    place,
  );
  return { title, content };
}

// Acts, and draws again; a problem is shown where it happened.
const doing = (element, again, work) => async () => {
  try {
    await again(await work());
  } catch (error) {
    replace(element, problem(error));
  }
};

async function requests(signal, again) {
  const { items } = await get("/v1/erasures", signal);
  const done = h("p", {}, h("a", { href: "#/ledger?sort=persons" }, "Erasures that were carried out"), " are in the ledger.");
  if (!items.length) return [empty("No erasure waits.", "One that is put off under “Erase a person” waits here until its day."), done];
  const wrong = h("div");
  const line = (pending) => {
    const late = Date.parse(pending.due) < Date.now();
    const cancel = doing(wrong, again, async () => {
      await remove(`/v1/erasures/${pending.leaf}`);
      return `The erasure of ${spelled(pending.subject)} is cancelled.`;
    });
    return row(
      {},
      cell({}, h("b", { class: "exact" }, spelled(pending.subject))),
      cell({}, moment(pending.due)),
      cell({ class: late || pending.held_back ? "kind refused" : "" }, stateOf(pending, late)),
      cell({}, pending.case ?? ""),
      cell({ class: "muted" }, pending.actor ?? ""),
      cell({}, h("a", { href: `#/ledger/${pending.leaf}` }, `Receipt ${pending.leaf}`)),
      cell({}, pending.begun ? "" : twoSteps("Cancel", "Really cancel?", cancel)),
    );
  };
  const headings = ["Person", "Due", "State", "Case", "Asked by", "Request", ""];
  return [h("section", { class: "card stack", "aria-label": "Requests" }, table("requests", headings, h("tbody", {}, items.map(line))), wrong), done];
}

function stateOf({ begun, held_back }, late) {
  if (held_back) return "A hold keeps it back";
  if (begun) return "Begun";
  return late ? "Overdue: the service carries it out as soon as it can" : "Waits";
}

async function holds(signal, again) {
  const { items } = await get("/v1/holds", signal);
  const wrong = h("div");
  const line = (hold) => {
    const release = doing(wrong, again, async () => {
      await remove(`/v1/holds/${hold.number}`);
      return `Hold ${hold.number} is released.`;
    });
    return row(
      {},
      cell({}, String(hold.number)),
      cell({}, hold.memory),
      cell({ class: "exact" }, hold.subject === null ? `entry ${spelled(hold.id)}` : spelled(hold.subject)),
      cell({}, hold.reason),
      cell({}, twoSteps("Release", "Really release?", release)),
    );
  };
  const list = items.length
    ? h(
        "section",
        { class: "card stack", "aria-label": "Holds" },
        table("holds", ["Hold", "Memory", "Whom or what it keeps", "Reason", ""], h("tbody", {}, items.map(line))),
      )
    : empty("No hold is in force.", "A hold keeps what it names from being erased until it is released.");
  return [list, wrong, newHold(wrong, again)];
}

function newHold(wrong, again) {
  const [memory, subject, reason] = ["memory", "subject", "reason"].map(() =>
    h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false" }),
  );
  const place = doing(wrong, again, async () => {
    const hold = await post(`/v1/memories/${addressOf({ name: memory.value.trim() })}/holds`, { subject: subject.value, reason: reason.value.trim() });
    return `Hold ${hold.number} is placed.`;
  });
  return h(
    "form",
    {
      class: "card stack",
      "aria-label": "Place a hold",
      onsubmit: (event) => {
        event.preventDefault();
        place();
      },
    },
    h("h2", {}, "Place a hold"),
    h(
      "div",
      { class: "ways" },
      field("Memory", memory),
      field("Person", subject, "Exactly as the records have the name."),
      field("Reason", reason, "Not in the ledger."),
    ),
    h("div", {}, h("button", { type: "submit" }, "Place the hold")),
  );
}

async function retention(signal, again) {
  const { memories, held, not_read: damaged } = await post("/v1/retention?dry_run=true", undefined, {}, signal);
  const wrong = h("div");
  const names = [...new Set([...Object.keys(memories), ...Object.keys(held)])].sort();
  if (!names.length) return empty("No entry has ended.", "Entries with an end date are erased when it has come. The service does so by itself from time to time.");
  const all = Object.values(memories).reduce((sum, one) => sum + one.applied.length, 0);
  const line = (name) =>
    row(
      {},
      cell({}, h("b", {}, name)),
      cell({}, count(memories[name]?.applied.length ?? 0)),
      cell({}, count(memories[name]?.derived.length ?? 0)),
      cell({ class: held[name]?.length ? "kind refused" : "" }, held[name]?.length ? `${plural(held[name].length, "entry", "entries")} kept by holds` : "none"),
    );
  const sweep = doing(wrong, again, async () => {
    let job = await post("/v1/retention", undefined, { Prefer: "wait=5" }, signal);
    while (job.state === "queued" || job.state === "running") job = await get(`/v1/jobs/${job.id}`, signal);
    if (job.state !== "done") throw new Error(job.problem?.detail ?? "it was interrupted; ask again");
    return `${plural(job.result.memories.reduce((sum, part) => sum + part.applied.length, 0), "entry", "entries")} erased.`;
  });
  return [
    h(
      "section",
      { class: "card stack", "aria-label": "Ended" },
      h("p", { class: "lead" }, `${plural(all, "entry has", "entries have")} ended, or ${all === 1 ? "was" : "were"} made from what has, and would be erased now.`),
      table("ended", ["Memory", "To go", "Of these made from others", "Holds"], h("tbody", {}, names.map(line))),
      damaged.length ? h("p", { class: "wrong" }, `Not read, because they are damaged: ${damaged.join(", ")}.`) : null,
      all ? h("div", {}, twoSteps(`Erase ${plural(all, "entry", "entries")} now`, `Really erase ${count(all)} for good?`, sweep)) : null,
    ),
    wrong,
  ];
}
