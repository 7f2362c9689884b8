// Who or what goes, in large type, and the field in which it is typed once more: before that the button cannot be pressed.

import { field, freshId, h } from "../element.js";

// Characters that cannot be seen, or told from others, by their numbers.
export function spelled(name) {
  const hidden = name === name.normalize("NFC") ? /\p{C}|(?! )\p{Z}/gu : /\p{C}|\p{M}|(?! )\p{Z}/gu;
  return name.replace(hidden, (one) => `\\u{${one.codePointAt(0).toString(16).padStart(4, "0")}}`);
}

// What two spellings of one name that nobody can tell apart on screen, or type, do not differ in.
const typed = (text) => text.normalize("NFC").replace(/\p{Cf}/gu, "").replace(/[\s\p{Z}]+/gu, " ").trim();

// `what`: the word for it ("name" or "id"); `extra`: fields between the name and its confirmation.
export function typedName({ name, what = "name", label, extra = null, confirm }) {
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const button = h("button", { type: "submit", class: "danger solid", disabled: true }, label);
  const why = h("span", { class: "muted", id: freshId("why") }, `Type the ${what} first.`);
  button.setAttribute("aria-describedby", why.id);
  const matches = () => typed(input.value) === typed(name);
  input.addEventListener("input", () => {
    button.disabled = !matches();
    why.textContent = matches() ? "This cannot be undone." : `Type the ${what} first.`;
  });
  return h(
    "form",
    {
      class: "stack",
      onsubmit: (event) => {
        event.preventDefault();
        if (!matches()) return input.focus();
        button.disabled = true;
        return confirm();
      },
    },
    extra,
    field(`Type the ${what} to confirm: ${spelled(name)}`, input),
    h("div", { class: "row" }, button, why),
  );
}

export const largeName = (name) => h("p", { class: "large-name" }, spelled(name));
