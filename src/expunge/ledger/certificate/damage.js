// Finds damage in the file that it is part of: every text on the page must follow from the data, and data, page, style
// and policy must have their digests. It cannot find forgery, because a forger writes this script anew.

// What of a document is damaged, or null.
function findDamage(document) {
  const text = (id) => document.getElementById(id).textContent;
  const digest = (found) => sha256Hex(new TextEncoder().encode(found));
  const digest64 = (found) => btoa(String.fromCharCode(...digest(found).match(/../g).map((pair) => Number.parseInt(pair, 16))));
  const data = document.getElementById("data");
  if (data.dataset.self !== digest(data.textContent)) return "data";
  const main = document.getElementById("page").outerHTML;
  if (data.dataset.page !== digest(main)) return "page";
  const [, size, again, path] = /viewBox="0 0 ([0-9]+) ([0-9]+)"><path d="([Mhvz0-9 -]*)">/.exec(main);
  const page = pageOf(JSON.parse(textOf(data.textContent)), WORDS);
  if (size !== again || main !== mainOf(page, [size, path], WORDS)) return "texts";
  if (document.title !== page.title) return "title";
  const [styled, scripted] = [document.querySelector("style").textContent, text("check")].map(digest64);
  const policy = document.querySelector("meta[http-equiv]").content;
  const rest = "base-uri 'none'; form-action 'none'";
  if (policy !== `default-src 'none'; style-src 'sha256-${styled}'; script-src 'sha256-${scripted}'; ${rest}`) return "policy";
  return document.compatMode === "CSS1Compat" ? null : "form";
}

function showResult() {
  let found;
  try {
    found = findDamage(document) ?? (document.styleSheets.length === 1 ? null : "style");
  } catch {
    found = "form";
  }
  let status = document.getElementById("self-check");
  if (status === null) {
    status = document.createElement("p");
    status.id = "self-check";
    document.body.prepend(status);
  }
  status.dataset.state = found === null ? "undamaged" : "damaged";
  status.textContent = WORDS.self_check[status.dataset.state];
  if (found !== null) status.dataset.place = found;
}

showResult();
