// The certificate of one leaf: a page that a person, or a regulator, gets and verifies elsewhere.

import { h, replace } from "../element.js";
import { fileOf, session, url } from "../session.js";
import { problem } from "../view_state.js";

export function saveFile(name, content) {
  const link = h("a", { download: name, href: URL.createObjectURL(content) });
  link.click();
  URL.revokeObjectURL(link.href);
}

// `person`: the subject of an erasure and its salt, where this tab has them. The certificate can then name it.
export function certificateActions(index, person = null) {
  const failed = h("div", { role: "status" });
  const withMemories = h("input", { type: "checkbox" });
  const withName = h("input", { type: "checkbox", checked: person !== null });
  const save = (format, kind) =>
    h(
      "button",
      {
        type: "button",
        class: format === "html" ? "primary" : null,
        async onclick({ currentTarget }) {
          currentTarget.disabled = true;
          replace(failed);
          try {
            const named = withName.checked && person ? { subject: person.subject, salt: person.salt } : {};
            named.names = withMemories.checked;
            const what = named.subject === undefined ? "" : "-with-name";
            saveFile(`certificate-${index}${what}.${format}`, await fileOf(`/v1/receipts/${index}/certificate`, { format, ...named }));
          } catch (error) {
            replace(failed, problem(error));
          }
          currentTarget.disabled = false;
        },
      },
      `Save certificate (${kind})`,
    );
  const keys = () => saveFile("trusted-keys.txt", new Blob([session.about.keys.map(({ key }) => `${key.trim()}\n`).join("")]));
  return h(
    "div",
    { class: "stack certificate" },
    h(
      "div",
      { class: "row" },
      save("html", "HTML"),
      save("pdf", "PDF"),
      person ? h("label", { class: "choice" }, withName, ` Name ${person.subject} on it`) : null,
      h("label", { class: "choice" }, withMemories, " Names of memories on it"),
    ),
    person ? h("p", { class: "muted" }, "With the name it is personal data itself: give it to this person alone, and a regulator the one without.") : null,
    h(
      "p",
      { class: "muted" },
      "To verify it elsewhere one needs ",
      h("a", { href: url("/page/verifier.html"), download: "expunge-verifier.html" }, "the verifier, which is one file"),
      ", and ",
      h("button", { type: "button", class: "link", onclick: keys }, "the keys of this store"),
      ". Hand the keys out another way than the certificate.",
    ),
    failed,
  );
}
