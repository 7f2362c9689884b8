// "Erase a person": find whom, see what is there, say why, type the name, and watch it go. What is shown and erased is
// always the person named in large type: a new search takes everything about the one before off the screen.

import { addressOfErasure, erasureResult } from "./erasure.js";
import { announce, cell, field, h, replace, row, sentence, table } from "../element.js";
import { headLine } from "../ledger/ledger_head.js";
import { count, moment, plural } from "../numbers.js";
import { newIdempotencyKey, post, session } from "../session.js";
import { takeArguments } from "../view_arguments.js";
import { empty, loading, problem } from "../view_state.js";
import { carryOut } from "./carry_out.js";
import { someOf } from "./long_table.js";
import { untilAnswered } from "./lost_answer.js";
import { goes, memoriesThatLose, passedOver, whatIsThere } from "./person_preview.js";
import { begin, drop, openErasure } from "./tab_erasures.js";
import { largeName, spelled, typedName } from "./typed_name.js";

const REASONS = [
  ["", "No reason given"],
  ["asked by the person", "The person asked for it"],
  ["no longer needed", "The data are no longer needed"],
  ["consent withdrawn", "Consent was withdrawn"],
  ["unlawful or entered by mistake", "Unlawful, or entered by mistake"],
  ["order of an authority", "An authority ordered it"],
];
const WAITS = [
  [0, "Now"],
  [3, "In 3 days"],
  [7, "In 7 days"],
  [30, "In 30 days"],
];
const DAY = 86_400;
const NOT_COVERED = "This reaches the store, and no copy made before: backups, exports, models that saw the entries.";

export async function view(_, signal) {
  return { title: "Erase a person", content: new Person(signal).element };
}

class Person {
  constructor(signal) {
    this.signal = signal;
    this.text = h("input", { type: "search", required: true, autocomplete: "off", spellcheck: "false" });
    this.text.addEventListener("input", () => this.clear());
    this.found = h("div", { class: "stack", "aria-live": "polite" });
    this.chosen = h("div", { class: "stack", "aria-live": "polite" });
    const reads = session.may("read");
    this.form = h(
      "form",
      { class: "card stack", role: "search", "aria-label": "Find a person", onsubmit: (event) => this.submit(event) },
      field(
        "Who is to be erased?",
        this.text,
        reads
          ? "A name, a number, or a part of it, as your records have it. Every memory is searched."
          : "The name exactly as the records have it: this token may erase, and not search.",
      ),
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: "primary" }, reads ? "Search" : "See what there is"),
        h("span", { class: "muted" }, "Searching changes nothing."),
      ),
    );
    this.element = h(
      "div",
      { class: "stack officer" },
      h("h1", {}, "Erase a person"),
      session.may("read", "audit") ? headLine() : null,
      this.form,
      this.found,
      this.chosen,
    );
    const { subject } = takeArguments();
    const open = openErasure();
    if (open) this.takeUp(open);
    else if (subject !== undefined) {
      this.text.value = subject;
      this.choose(subject);
    }
  }

  // Whatever was on screen about somebody is not about whom is asked for now.
  clear() {
    this.asked = null;
    replace(this.found);
    replace(this.chosen);
  }

  // Shows the result of what was asked last, or what went wrong, and nothing of what was asked before.
  async show(element, what, work) {
    const mine = (this.asked = {});
    replace(element, loading(what));
    try {
      const content = await work();
      if (this.asked === mine) replace(element, content);
    } catch (error) {
      if (error.name !== "AbortError" && this.asked === mine) replace(element, problem(error, () => this.show(element, what, work)));
    }
  }

  submit(event) {
    event.preventDefault();
    this.clear();
    const text = this.text.value;
    if (!session.may("read")) return this.choose(text);
    return this.show(this.found, "the search", async () => {
      const { items, more, not_searched } = await post("/v1/subjects/search", { text }, {}, this.signal);
      announce(`${plural(items.length, "person", "persons")} found`);
      return [this.list(text, items, more), passedOver({ look_alikes: [], not_searched }, null, "Not searched")];
    });
  }

  list(text, items, more) {
    if (!items.length)
      return empty(
        `Nobody in the store is called “${spelled(text.trim())}”, or nearly so.`,
        "Try a part of the name, or the number that your records use. What is not there needs no erasing.",
      );
    const see = (subject, memories) => {
      const choose = () => this.choose(subject, memories);
      return h("button", { type: "button", "aria-label": `See what there is of ${subject}`, onclick: choose }, "See what there is");
    };
    const line = ({ subject, entries, memories }) =>
      row(
        {},
        cell(
          { class: "who-found" },
          h("code", { class: "exact" }, spelled(subject)),
          subject === text ? h("span", { class: "muted" }, " as you wrote it") : null,
        ),
        cell({}, plural(entries, "entry", "entries")),
        cell({ class: "muted" }, someOf(Object.keys(memories))),
        cell({}, see(subject, memories)),
      );
    return h(
      "section",
      { class: "card stack", "aria-label": "Found" },
      h("h2", {}, `${plural(items.length, "name")} found${more ? ", and more: write more of the name" : ""}`),
      items.length > 1 ? h("p", { class: "muted" }, "One person may stand under several spellings: each is erased by itself.") : null,
      table("people", ["Name", "Entries", "Memories", ""], h("tbody", {}, items.map(line))),
    );
  }

  choose(subject, memories = null) {
    return this.show(this.chosen, "what is there", async () => {
      const seen = await post("/v1/erasures?dry_run=true", { subject }, {}, this.signal);
      announce(`What the store has of ${subject} is shown`);
      // Keyboards and readers go on where it is.
      queueMicrotask(() => this.chosen.firstElementChild.focus());
      // Which memories were not searched stands beside the search already.
      const beside = memories === null ? seen : { ...seen, not_searched: [] };
      return [this.person(subject, seen, memories), passedOver(beside, (other) => this.choose(other))];
    });
  }

  person(subject, seen, memories) {
    if (!Object.keys(seen.memories).length)
      return h(
        "section",
        { class: "card stack person", "aria-label": "Person", tabindex: "-1" },
        largeName(subject),
        h("p", { class: "lead" }, "No entry belongs to this name. There is nothing to erase."),
      );
    const all = goes(seen);
    const total = plural(all, "entry", "entries");
    const kept = Object.values(seen.memories).filter((one) => one.outcome === "refused").length;
    return h(
      "section",
      { class: "card stack person", "aria-label": "Person", tabindex: "-1" },
      h("h2", { class: "hidden" }, `What there is of ${subject}`),
      largeName(subject),
      h(
        "p",
        { class: "lead" },
        all ? `${total} in ${plural(memoriesThatLose(seen), "memory", "memories")} would be erased.` : "Nothing can be erased now.",
        kept ? ` In ${plural(kept, "memory", "memories")} it would be refused: see the table.` : "",
      ),
      whatIsThere(seen, memories),
      h("p", { class: "muted" }, NOT_COVERED),
      all ? this.confirmation(subject, seen, `Erase ${total} for good`) : null,
    );
  }

  confirmation(subject, seen, label) {
    const number = h("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: "120", pattern: "[ -~]*" });
    const options = (all) => all.map(([value, text]) => h("option", { value }, text));
    const [reason, wait] = [h("select", {}, options(REASONS)), h("select", {}, options(WAITS))];
    const extra = h(
      "div",
      { class: "ways" },
      field("Case number", number, "Your own reference, without a name in it."),
      field("Reason", reason, "Kept with the case number."),
      field("When", wait, "Later: until then it can be cancelled under Requests."),
    );
    const confirm = () => {
      const asked = {
        subject,
        key: newIdempotencyKey(),
        digest: seen.digest,
        order: seen.order,
        case: [number.value.trim(), reason.value ? `(${reason.value})` : ""].filter(Boolean).join(" ") || null,
      };
      if (wait.value !== "0") return this.eraseLater(asked, Number(wait.value));
      return this.erase(begin(asked));
    };
    return h(
      "section",
      { class: "stack confirm", "aria-label": "Confirm" },
      h("h2", {}, "Erase"),
      typedName({ name: subject, label, extra, confirm }),
    );
  }

  async erase(record) {
    this.asked = null;
    this.form.hidden = true;
    replace(this.found);
    scrollTo(0, 0);
    try {
      const result = await carryOut(record, this.chosen, this.signal);
      announce("The erasure has ended");
      // The address of what was done, so that a reload shows it again; a token that may not read it sees it here.
      if (result.index !== null && session.may("read", "audit")) location.replace(addressOfErasure(result.index));
      else replace(this.chosen, erasureResult({ result, person: record }), this.another());
    } catch (error) {
      if (error.name === "AbortError") return;
      this.stopped(record, error);
    }
  }

  // It ended without a result. Where others would go now than those that were seen, they are to be seen first.
  stopped(record, error) {
    const again = openErasure()
      ? h("button", { type: "button", class: "primary", onclick: () => this.erase(record) }, "Try the rest again")
      : h("button", { type: "button", class: "primary", onclick: () => this.lookAgain(record.subject) }, "Look again");
    replace(
      this.chosen,
      h(
        "section",
        { class: "card stack", "aria-label": "Erasure" },
        largeName(record.subject),
        error.status === 412 ? changed() : problem(error),
        h("div", { class: "row" }, again, openErasure() ? this.giveUp(record) : null),
      ),
    );
  }

  giveUp(record) {
    const leave = () => {
      drop(record.key);
      this.lookAgain(record.subject);
    };
    return h("button", { type: "button", onclick: leave }, "Look at what is left");
  }

  lookAgain(subject) {
    this.form.hidden = false;
    this.text.value = subject;
    this.clear();
    this.choose(subject);
  }

  another() {
    const again = () => {
      this.form.hidden = false;
      this.text.value = "";
      this.clear();
      this.text.focus();
    };
    return h("div", {}, h("button", { type: "button", onclick: again }, "Erase another person"));
  }

  // An erasure that this tab began, and whose answer it does not have.
  takeUp(record) {
    this.text.value = record.subject;
    announce("An erasure that was begun in this tab is taken up");
    this.erase(record);
  }

  async eraseLater({ subject, key, case: reference }, days) {
    const body = { subject, after: days * DAY };
    const headers = { "Idempotency-Key": key, ...(reference ? { "Expunge-Case": reference } : {}) };
    this.form.hidden = true;
    try {
      const pending = await untilAnswered(() => post("/v1/erasures", body, headers, this.signal), this.chosen, this.signal);
      replace(
        this.chosen,
        h(
          "section",
          { class: "card stack", "aria-label": "Request" },
          largeName(subject),
          h("p", { class: "lead" }, sentence(`the erasure is requested, and is carried out on ${moment(pending.due)}`)),
          h("p", {}, "What is there of this name on that day goes. ", h("a", { href: "#/requests" }, "See or cancel it under Requests")),
          h("p", { class: "muted" }, `It is receipt ${count(pending.leaf)} of the ledger.`),
        ),
        this.another(),
      );
    } catch (error) {
      if (error.name !== "AbortError") replace(this.chosen, problem(error), this.another());
    }
  }
}

const changed = () =>
  h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, "The store has changed"),
    h("p", {}, "Other entries would go now than those that you saw. Nothing was erased."),
  );
