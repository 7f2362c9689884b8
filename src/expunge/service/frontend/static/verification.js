// Verifying a receipt from anywhere, with a key from anywhere. It needs no service and no token; all of it happens here.

import { announce, field, h, replace } from "./element.js";
import { session } from "./session.js";
import { stepList, verdict } from "./verification_steps.js";
import { unsupportedReason } from "./verify/signing.js";
import { verifyLeaf } from "./verify/steps.js";
import { problem } from "./view_state.js";

export async function view() {
  const envelope = box(5);
  const proof = box(5);
  const trust = box(2);
  const result = h("div", { class: "stack", "aria-live": "polite" }, expected());
  const cannot = await unsupportedReason();
  const form = h(
    "form",
    {
      class: "card stack",
      async onsubmit(event) {
        event.preventDefault();
        try {
          const found = await verifyLeaf({ envelope: envelope.value, proof: proof.value, trust: trust.value });
          replace(
            result,
            h("section", { class: "card stack", "aria-label": "Result" }, verdict(found), stepList(found.steps)),
          );
          announce(found.failed ? `It does not verify: ${found.failed.name}` : "It verifies");
        } catch (error) {
          replace(result, problem(error));
        }
      },
    },
    withFile("Receipt", envelope, "The envelope, one line of JSON."),
    withFile("Proof of inclusion", proof, "The .tlog-proof file. Leave it empty to check the receipt alone."),
    withFile(
      "Trusted key",
      trust,
      "The log's verifier key (name+id+base64), or a PEM public key. Take it from somebody you trust, not from whoever sent the receipt.",
    ),
    h(
      "div",
      { class: "row" },
      h("button", { type: "submit", class: "primary", disabled: cannot !== null }, "Verify"),
      session.about
        ? h(
            "button",
            {
              type: "button",
              onclick: () => {
                trust.value = session.about.log_key;
              },
            },
            "Use this store's key",
          )
        : null,
    ),
    cannot === null ? null : h("p", { class: "wrong" }, cannot),
  );
  const content = h(
    "div",
    { class: "stack" },
    h("div", { class: "title-row" }, h("h1", {}, "Verify a receipt")),
    h(
      "p",
      { class: "prose" },
      "Ed25519 signatures, SHA-256, the Merkle path and the receipt's own consistency are checked by your browser. Nothing you paste leaves it. Whoever does not trust this page can run ",
      h("code", {}, "expunge verify"),
      " instead: same files, same answers.",
    ),
    h("div", { class: "verify-layout" }, form, result),
  );
  return { title: "Verify", content };
}

// What is going to be checked, before there is something to check.
function expected() {
  return h(
    "section",
    { class: "card stack" },
    h("h2", {}, "What is checked"),
    h(
      "ul",
      { class: "bullets" },
      CHECKS.map((text) => h("li", {}, text)),
    ),
    h(
      "p",
      { class: "muted" },
      "Each step says whether it holds, and if not, which rule was broken, by the name that the format's documentation gives to it.",
    ),
  );
}

const CHECKS = [
  "The envelope has exactly one reading: canonical JSON, every field, no other.",
  "The trusted key signed this payload, byte for byte.",
  "The receipt agrees with itself: states, numbers of entries, residuals, what it claims.",
  "The log signed a head, and a path of hashes leads from this very envelope to its root.",
];

const box = (rows) => h("textarea", { rows, spellcheck: "false", autocomplete: "off", class: "mono" });

function withFile(label, control, hint) {
  const file = h("input", {
    type: "file",
    "aria-label": `${label}: from a file`,
    async onchange() {
      if (file.files.length) control.value = await file.files[0].text();
    },
  });
  return h("div", { class: "with-file" }, field(label, control, hint), file);
}
