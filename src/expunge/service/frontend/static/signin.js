// Signing in with a bearer token, which stays in this tab.

import { field, h, replace } from "./element.js";
import { session } from "./session.js";
import { problem } from "./view_state.js";

export function signIn(done, reason) {
  const token = h("input", {
    type: "password",
    name: "token",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const wrong = h("div", {}, reason ? problem(reason) : null);
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h(
    "form",
    {
      class: "card stack",
      async onsubmit(event) {
        event.preventDefault();
        button.disabled = true;
        replace(wrong);
        try {
          await session.signIn(token.value.trim());
          done();
        } catch (error) {
          replace(wrong, problem(error));
          button.disabled = false;
          token.focus();
        }
      },
    },
    field(
      "Token",
      token,
      "Made with `expunge token create`. It is kept in this tab only and forgotten when you close it.",
    ),
    h("div", {}, button),
    wrong,
  );
  return h(
    "div",
    { class: "narrow stack" },
    h("h1", {}, "Sign in"),
    h("p", { class: "lead" }, "A memory you can delete from, and prove it."),
    form,
    h(
      "p",
      { class: "muted" },
      "To check a receipt that you already have, no token is needed: ",
      h("a", { href: "#/verify" }, "verify it here"),
      ".",
    ),
  );
}
