// Deleting an entry or erasing a subject: first what would change, then the edit, then its receipt.
// The edit names the state that was previewed, so what was seen is what is done.

import { Chart, placed } from "../engineer/chart.js";
import { announce, field, freshId, h, replace } from "../element.js";
import { plural } from "../numbers.js";
import { foundBesides, preview, storeErasure, storePreview } from "./preview.js";
import { receiptPanel } from "../ledger/receipt.js";
import { newIdempotencyKey, get, memoryPath, post, session } from "../session.js";
import { takeArguments } from "../view_arguments.js";
import { empty, loading, problem } from "../view_state.js";

const WAYS = [
  ["id", "One entry", "Its id"],
  ["subject", "A subject, in this memory", "Whose entries"],
  ["everywhere", "A subject, in every memory", "Whose entries"],
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
    this.choices = h("datalist", { id: this.name.getAttribute("list") });
    this.result = h("div", { class: "stack", "aria-live": "polite" });
    const { id, subject } = takeArguments();
    this.way = subject === undefined ? "id" : "subject";
    this.name.value = subject ?? id ?? "";
    this.labelled = h("div", {});
    const ways = WAYS.filter(([way]) => way !== "everywhere" || session.isStoreWide);
    this.form = h(
      "form",
      { class: "card stack", onsubmit: (event) => this.ask(event) },
      h(
        "fieldset",
        { class: "row" },
        h("legend", {}, "What is to go"),
        ways.map(([way, label]) => this.radio(way, label)),
      ),
      this.choices,
      this.labelled,
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: "primary" }, "Preview"),
        h("span", { class: "muted" }, "Nothing is changed by looking."),
      ),
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
    replace(this.result);
  }

  // Shows what goes wrong in place of a result.
  async attempt(what, work) {
    replace(this.result, loading(what));
    try {
      replace(this.result, await work());
    } catch (error) {
      if (error.name === "AbortError") return;
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
      if (this.way === "everywhere") {
        const found = await post("/v1/erasures?dry_run=true", { subject: name });
        announce("Preview ready");
        return [storePreview(found.memories, () => this.eraseInStore(name)), this.besides(found)];
      }
      // The state that is looked at is the one that may be edited.
      const { digest } = await get(memoryPath(this.memory));
      const wanted = this.way === "id" ? { ids: [name] } : { subject: name };
      const seen = await post(memoryPath(this.memory, "/delete?dry_run=true"), wanted, {
        "If-Match": `"${digest}"`,
      });
      announce("Preview ready");
      return [
        preview(seen, this.memory, () => this.erase(wanted, digest)),
        this.picture(new Set(seen.applied), "to go"),
      ];
    });
  }

  erase(wanted, digest) {
    return this.attempt("the deletion", async () => {
      const headers = { "If-Match": `"${digest}"`, "Idempotency-Key": newIdempotencyKey() };
      const receipt = await post(memoryPath(this.memory, "/delete"), wanted, headers);
      announce(`${plural(receipt.applied.length, "entry", "entries")} erased`);
      return [
        this.done(receipt.applied.length),
        stillWaiting(receipt.waiting),
        await receiptPanel(receipt.index, this.signal),
        await this.after(receipt.applied),
      ];
    });
  }

  eraseInStore(subject) {
    return this.attempt("the erasure", async () => {
      let job = await post("/v1/erasures", { subject }, { "Idempotency-Key": newIdempotencyKey(), Prefer: "wait=5" });
      while (job.state === "queued" || job.state === "running") {
        replace(this.result, progress(job.progress));
        await new Promise((resolve) => setTimeout(resolve, 400));
        job = await get(`/v1/jobs/${job.id}`, this.signal);
      }
      if (job.state !== "done")
        return problem(
          new Error(
            job.problem?.detail ?? "The erasure was interrupted. Ask for it again: what was done is not done twice.",
          ),
        );
      const { memories, index, salt, waiting } = job.result;
      const here = memories.find((part) => part.memory === this.memory.name);
      announce("Erased");
      return [
        storeErasure(job.result),
        this.besides(job.result),
        stillWaiting(waiting),
        index === null ? null : await receiptPanel(index, this.signal, { subject, salt }),
        here ? await this.after(here.applied) : null,
      ];
    });
  }

  // A look-alike is looked at under its own name before anything can be erased.
  besides(found) {
    return foundBesides(found, (subject) => {
      this.name.value = subject;
      this.look(subject);
    });
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

function progress({ done, total }) {
  return h(
    "div",
    { class: "stack" },
    h("p", { role: "status" }, `Erasing: ${done} of ${plural(total, "memory", "memories")} done`),
    h("progress", { max: total || 1, value: done, "aria-label": "Memories done" }),
  );
}

// Why the database's files still hold what was erased; nothing where they do not.
function stillWaiting(reason) {
  return reason ? h("p", { class: "note" }, `Not yet gone from the files: ${reason}.`) : null;
}
