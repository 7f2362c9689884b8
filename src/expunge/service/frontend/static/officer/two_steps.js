// A button that asks back before it acts: the second press does it, leaving it takes the question back.

import { h } from "../element.js";

export function twoSteps(label, sure, act) {
  let asked = false;
  const button = h("button", { type: "button" }, label);
  const ask = (now) => {
    asked = now;
    button.textContent = now ? sure : label;
    button.classList.toggle("danger", now);
  };
  button.addEventListener("blur", () => ask(false));
  button.addEventListener("click", async () => {
    if (!asked) return ask(true);
    button.disabled = true;
    return act();
  });
  return button;
}
