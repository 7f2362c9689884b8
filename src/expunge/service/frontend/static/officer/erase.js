// Deleting an entry or erasing a subject: first what would change, then the edit, then its receipt.
// The edit names the state that was previewed, so what was seen is what is done.

import { Chart, placed } from "../engineer/chart.js";
import { announce, field, freshId, h, replace } from "../element.js";
import { plural } from "../numbers.js";
import { untilAnswered } from "./lost_answer.js";
import { preview } from "./preview.js";
import { receiptPanel } from "../ledger/receipt.js";
import { newIdempotencyKey, get, memoryPath, post, session } from "../session.js";
import { takeArguments } from "../view_arguments.js";
import { empty, loading, problem } from "../view_state.js";

const WAYS = [
  ["id", "One entry", "Its id"],
  ["subject", "A subject, in this memory", "Whose entries"],
];

export async function panel(memory, context) {
  if (!session.may("erase"))
    return empty("This token may not erase.", "Sign in with one that has the scope erase to preview and delete.");
  const map = await get(memoryPath(memory, "/map"), context.signal);
  return new Eraser(memory, map, context).element;
}

class Eraser {
  constructor(memory, map, { signal, refresh }) {
    Object.assign(this, { memory, map, signal, refresh });
    this.points = placed(map);
    this.name = h("input", {
      type: "text",
      required: true,
      list: freshId("names"),
      autocomplete: "off",
      spellcheck: "false",
    });
    // What is on screen is about the name that was looked at, and about no other.
    this.name.addEventListener("input", () => this.clear());
    this.choices = h("datalist", { id: this.name.getAttribute("list") });
    this.result = h("div", { class: "stack", "aria-live": "polite" });
    const { id, subject } = takeArguments();
    this.way = subject === undefined ? "id" : "subject";
    this.name.value = subject ?? id ?? "";
    this.labelled = h("div", {});
    this.form = h(
      "form",
      { class: "card stack", onsubmit: (event) => this.ask(event) },
      h(
        "fieldset",
        { class: "row" },
        h("legend", {}, "What is to go"),
        WAYS.map(([way, label]) => this.radio(way, label)),
      ),
      this.choices,
      this.labelled,
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: "primary" }, "Preview"),
        h("span", { class: "muted" }, "Nothing is changed by looking."),
      ),
      session.isStoreWide
        ? h("p", { class: "muted" }, "This reaches one memory. To erase a person from all of them: ", h("a", { href: "#/erase" }, "Erase a person"), ".")
        : null,
    );
    this.element = h("div", { class: "erase-layout" }, this.form, this.result);
    this.choose(this.way);
    if (this.name.value !== "") this.ask();
  }

  radio(way, label) {
    const button = h("input", { type: "radio", name: "way", value: way, onchange: () => this.choose(way) });
    button.checked = way === this.way;
    return h("label", { class: "choice" }, button, label);
  }

  choose(way) {
    this.way = way;
    replace(this.labelled, field(WAYS.find(([key]) => key === way)[2], this.name));
    const known = [...this.points, ...this.map.forgotten];
    const names = way === "id" ? known.map((entry) => entry.id) : known.map((entry) => entry.subject).filter(Boolean);
    this.known = new Set(names);
    replace(
      this.choices,
      [...this.known].slice(0, 1000).map((value) => h("option", { value })),
    );
    this.clear();
  }

  clear() {
    this.asked = null;
    replace(this.result);
  }

  // Shows what goes wrong in place of a result.
  async attempt(what, work) {
    const mine = (this.asked = {});
    replace(this.result, loading(what));
    try {
      const content = await work();
      if (this.asked === mine) replace(this.result, content);
    } catch (error) {
      if (error.name === "AbortError" || this.asked !== mine) return;
      const receipt = error.receipt?.index === undefined ? null : await receiptPanel(error.receipt.index, this.signal);
      replace(this.result, problem(error), receipt);
    }
  }

  ask(event) {
    event?.preventDefault();
    // Blanks around a name are a slip, unless there is one that has them.
    const typed = this.name.value;
    return this.look(this.known.has(typed) ? typed : typed.trim());
  }

  look(name) {
    return this.attempt("the preview", async () => {
      // The state that is looked at is the one that may be edited.
      const { digest } = await get(memoryPath(this.memory));
      const wanted = this.way === "id" ? { ids: [name] } : { subject: name };
      const seen = await post(memoryPath(this.memory, "/delete?dry_run=true"), wanted, {
        "If-Match": `"${digest}"`,
      });
      announce("Preview ready");
      return [
        preview(seen, this.memory, { subject: wanted.subject, id: name }, () => this.erase(wanted, digest)),
        this.picture(new Set(seen.applied), "to go"),
      ];
    });
  }

  async erase(wanted, digest) {
    // Until there is an answer, nothing else is asked here.
    this.form.inert = true;
    await this.attempt("the deletion", async () => {
      const headers = { "If-Match": `"${digest}"`, "Idempotency-Key": newIdempotencyKey() };
      const ask = () => post(memoryPath(this.memory, "/delete"), wanted, headers, this.signal);
      const receipt = await untilAnswered(ask, this.result, this.signal);
      announce(`${plural(receipt.applied.length, "entry", "entries")} erased`);
      return [
        this.done(receipt.applied.length),
        stillWaiting(receipt.waiting),
        await receiptPanel(receipt.index, this.signal),
        await this.after(receipt.applied),
      ];
    });
    this.form.inert = false;
  }

  done(number) {
    return h(
      "div",
      { class: "done" },
      h(
        "p",
        {},
        h("span", { class: "sign passed" }, "✓"),
        ` ${plural(number, "entry is", "entries are")} erased. This is the receipt.`,
      ),
    );
  }

  // Where the erased ones were, as this view still remembers, among what the others are now.
  async after(applied) {
    const [memory, map] = await Promise.all([
      get(memoryPath(this.memory), this.signal),
      get(memoryPath(this.memory, "/map"), this.signal),
    ]);
    this.refresh(memory);
    const groups = new Map(placed(map).map((point) => [point.id, point.group]));
    const gone = new Set(applied);
    this.points = this.points.map((point) => ({
      ...point,
      group: gone.has(point.id) ? "erased" : (groups.get(point.id) ?? point.group),
    }));
    this.map = map;
    const picture = this.picture(gone, "erased");
    // Forgotten as soon as it is drawn: a next preview starts from what is there.
    this.points = this.points.filter((point) => point.group !== "erased");
    return picture;
  }

  picture(chosen, how) {
    const points = this.points.map((point) => (chosen.has(point.id) ? { ...point, group: "erased" } : point));
    if (!points.some((point) => point.group === "erased")) return null;
    const chart = new Chart({
      points,
      boundary: this.map.boundary,
      label: `Map with ${plural(chosen.size, "entry", "entries")} ${how} crossed out`,
      signal: this.signal,
    });
    const words =
      how === "erased"
        ? "Crosses show where they were. This view remembers that until you leave it; the store does not."
        : "Crosses are the entries that would go.";
    return h(
      "section",
      { class: "stack", "aria-label": "Map of the change" },
      chart.element,
      h("p", { class: "muted" }, words),
    );
  }
}

// Why the database's files still hold what was erased; nothing where they do not.
function stillWaiting(reason) {
  return reason ? h("p", { class: "note" }, `Not yet gone from the files: ${reason}.`) : null;
}
