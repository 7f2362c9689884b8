// The verifier: files are dropped, a key is pasted, and every file gets its verdict. Used by the page of the service and
// by the verifier that is one file; all of it happens here, and nothing leaves the browser.

import { announce, field, h, replace } from "../element.js";
import { count, plural } from "../numbers.js";
import { VerificationError } from "../verify/failure.js";
import { KINDS, recognise } from "../verify/files.js";
import { toUtf8 } from "../verify/encoding.js";
import { isSalt } from "../verify/revealed.js";
import { unsupportedReason } from "../verify/signing.js";
import { readTrust } from "../verify/trust.js";
import { findingView } from "./finding_view.js";
import { inspect } from "./findings.js";

const LARGEST = 2 ** 31 - 1;

// `storeKeys`: keys that are at hand and may be put into the field, or null.
export async function verifierPanel({ storeKeys = null } = {}) {
  const files = [];
  const list = h("ul", { class: "taken" });
  const key = h("textarea", { rows: 4, spellcheck: "false", autocomplete: "off", class: "mono" });
  const [text, salt] = ["", "mono"].map((kind) =>
    h("input", { type: "text", spellcheck: "false", autocomplete: "off", class: kind }),
  );
  const oldest = h("input", { type: "number", min: "0", step: "any", autocomplete: "off" });
  const result = h("div", { class: "stack results", "aria-live": "polite" }, expected());
  // The answer may be above or below the button that asked for it.
  const answer = (...content) => {
    replace(result, ...content);
    result.scrollIntoView({ block: "nearest" });
    if (result.getBoundingClientRect().top < 0) result.scrollIntoView({ block: "start" });
  };
  const cannot = await unsupportedReason();

  async function take(name, bytes) {
    const kind = recognise(bytes);
    if (kind === "keys") {
      const added = new TextDecoder().decode(bytes).trim();
      if (!key.value.includes(added)) key.value = `${key.value.trimEnd()}\n${added}\n`.trimStart();
      announce(`${name} was added to the keys`);
      return;
    }
    const before = files.findIndex((file) => file.name === name && name !== PASTED);
    if (before >= 0) files.splice(before, 1);
    files.push({ name, bytes, kind });
    draw();
  }

  function draw() {
    replace(
      list,
      files.map((file) =>
        h(
          "li",
          {},
          h("span", {}, h("b", {}, file.name), h("span", { class: "muted" }, ` ${KINDS[file.kind]}`)),
          h(
            "button",
            {
              type: "button",
              class: "quiet",
              "aria-label": `Remove ${file.name}`,
              onclick: () => {
                files.splice(files.indexOf(file), 1);
                draw();
              },
            },
            "Remove",
          ),
        ),
      ),
    );
  }

  async function takeAll(found) {
    for (const file of found) {
      if (file.size > LARGEST) replace(result, wrong(`${file.name} is larger than a browser can read.`));
      else await take(file.name, new Uint8Array(await file.arrayBuffer()));
    }
    if (files.length && key.value.trim() !== "") await verify();
  }

  async function verify() {
    const waiting = h("p", { class: "loading", role: "status" }, "Verifying …");
    try {
      if (!files.length) return answer(wrong("There is no file yet: drop one, or paste its text."));
      if (key.value.trim() === "") return answer(wrong(storeKeys === null ? NO_KEY : `${NO_KEY} Or press “Use this store's keys”, if you trust this store.`, "signing-key-missing"));
      const about = aboutFrom(text.value.trim(), salt.value.trim());
      replace(result, waiting);
      const trust = { ...(await readTrust(key.value)), maxAge: ageFrom(oldest) };
      const found = await inspect(files, {
        trust,
        about,
        now: Math.floor(Date.now() / 1000),
        progress: async (done, all) => {
          waiting.textContent = `Verifying: ${count(done)} of ${plural(all, "leaf", "leaves")} …`;
          await new Promise((resolve) => setTimeout(resolve));
        },
      });
      answer(found.length ? found.map(findingView) : wrong(NOTHING_ALONE));
      const bad = found.filter(({ state }) => state === "failed").length;
      return announce(bad ? `${bad} of ${found.length} do not verify` : `${found.length} checked, none is wrong`);
    } catch (error) {
      if (!(error instanceof VerificationError)) console.error(error);
      return answer(wrong(error.message, error instanceof VerificationError ? error.name : null));
    }
  }

  const useStoreKeys = async () => {
    key.value = storeKeys;
    if (files.length) await verify();
    else replace(result, expected());
  };

  const chooser = h("input", {
    type: "file",
    multiple: true,
    id: "verifier-files",
    onchange: async () => {
      const chosen = [...chooser.files];
      chooser.value = "";
      await takeAll(chosen);
    },
  });
  const pasted = h("textarea", { rows: 3, spellcheck: "false", autocomplete: "off", class: "mono" });
  const addPasted = async () => {
    if (pasted.value.trim() === "") return;
    await take(PASTED, toUtf8(pasted.value));
    pasted.value = "";
  };
  const form = h(
    "form",
    {
      class: "card stack",
      async onsubmit(event) {
        event.preventDefault();
        await addPasted();
        await verify();
      },
    },
    dropZone(chooser, takeAll),
    list,
    h(
      "details",
      {},
      h("summary", {}, "Or paste a text"),
      field("Text of a receipt, a proof, or a signed head", pasted),
      h("div", {}, h("button", { type: "button", onclick: addPasted }, "Add")),
    ),
    field(
      "Trusted keys",
      key,
      "PEM or verifier key (`name+id+base64`), one after another. Take them from somebody you trust, not from whoever sent the files. Keys of witnesses, and root certificates of time-stamping authorities, go here too.",
    ),
    h(
      "details",
      {},
      h("summary", {}, "How old may a cosignature be?"),
      field("Hours", oldest, "Of the line by each witness whose key you gave. Without a number, any age will do."),
    ),
    storeKeys === null
      ? null
      : h("div", {}, h("button", { type: "button", onclick: useStoreKeys }, "Use this store's keys")),
    h(
      "fieldset",
      { class: "stack about-me" },
      h("legend", {}, "Is this about me?"),
      h("p", { class: "muted" }, "Receipts name nobody. With the name and the salt that came with it, one sees whom it is about. Leave both empty otherwise."),
      field("Name, number, or case", text, "Exactly as the organisation writes it."),
      field("Salt", salt, "64 hexadecimal digits."),
    ),
    h("div", {}, h("button", { type: "submit", class: "primary", disabled: cannot !== null }, "Verify")),
    cannot === null ? null : h("p", { class: "wrong" }, cannot),
  );
  return h("div", { class: "verify-layout" }, form, result);
}

const PASTED = "pasted text";
const NO_KEY = "There is no key yet: paste the public key of whoever signed into “Trusted keys”.";
const NOTHING_ALONE =
  "What was given proves nothing by itself: a proof of inclusion needs its receipt, a time stamp its signed head.";

function dropZone(chooser, takeAll) {
  const over = (zone, is) => zone.classList.toggle("over", is);
  const zone = h(
    "div",
    {
      class: "drop",
      ondragover: (event) => {
        event.preventDefault();
        over(zone, true);
      },
      ondragleave: () => over(zone, false),
      ondrop: (event) => {
        event.preventDefault();
        over(zone, false);
        takeAll([...event.dataTransfer.files]);
      },
    },
    h("label", { for: "verifier-files" }, "Files: drop them here, or choose them"),
    chooser,
    h("p", { class: "hint" }, "Receipts, proofs, signed heads, certificates, evidence bundles, whole ledgers, time stamps."),
  );
  return zone;
}

function aboutFrom(text, salt) {
  if (text === "" && salt === "") return null;
  if (text === "") throw new VerificationError("input-error", "a salt needs the text that it goes with");
  if (salt === "") throw new VerificationError("input-error", "a name needs the salt that came with it: leave both empty, or give both");
  if (!isSalt(salt)) throw new VerificationError("input-error", "a salt is 64 hexadecimal digits, in lower case");
  return { text, salt };
}

function ageFrom(input) {
  if (input.value === "" && !input.validity.badInput) return null;
  const hours = input.valueAsNumber;
  if (!(hours >= 0)) throw new VerificationError("input-error", "the age of a cosignature is a number of hours, 0 or more");
  return Math.floor(3600 * hours);
}

const wrong = (message, code = null) =>
  h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, "Nothing was verified"),
    h("p", {}, code === null ? null : [h("code", {}, code), ": "], message),
  );

// What is going to be checked, before there is something to check.
function expected() {
  return h(
    "section",
    { class: "card stack" },
    h("h2", {}, "What is checked"),
    h("ul", { class: "bullets" }, CHECKS.map((text) => h("li", {}, text))),
    h(
      "p",
      { class: "muted" },
      "Each file gets a verdict. Where it does not hold, the verdict names the rule that was broken, by the name that the documentation of the format gives to it.",
    ),
  );
}

const CHECKS = [
  "A key that you trust signed it, byte for byte, and it has exactly one reading.",
  "It agrees with itself: states, numbers of entries, what it claims.",
  "It is in the ledger: a path of hashes leads to a head that the ledger signed and your witnesses cosigned.",
  "Of a whole ledger: no leaf contradicts the leaves before it; nothing erased came back.",
  "Whether it is about you, where you have the salt.",
];
