// The frame of the page: sign-in, navigation, and the view of the current route. Views are named for what they show.

import { announce, h, replace } from "./element.js";
import { forgetErasures } from "./officer/tab_erasures.js";
import { session } from "./session.js";
import { loading, problem } from "./view_state.js";

const LOADING_DELAY = 250; // milliseconds
const main = document.getElementById("main");
let viewAbort = null; // aborts the requests of the view on screen
let signOutReason = null; // why the session ended, for the sign-in view

// In order; the first one that the token may see is the start. A section is for tokens with one of its scopes, and
// those `storeWide` for tokens of no single memory. Without scopes it is for everybody, also before signing in.
const SECTIONS = [
  { name: "erase", href: "#/erase", label: "Erase a person", scopes: ["erase"], storeWide: true },
  { name: "requests", href: "#/requests", label: "Requests", scopes: ["erase"], storeWide: true },
  { name: "memories", href: "#/memories", label: "Memories", scopes: ["read", "audit", "admin"] },
  { name: "holds", href: "#/holds", label: "Holds", scopes: ["admin"] },
  { name: "ledger", href: "#/ledger", label: "Ledger", scopes: ["read", "audit"] },
  { name: "verify", href: "#/verify", label: "Verify", scopes: [] },
  { name: "report", href: "#/report", label: "Report", scopes: ["read", "audit"] },
];

// Route → module; each exports `view(parameters, signal, query)`, which returns { title, content }. What stands behind
// a question mark in the route is the query, a URLSearchParams: filters, and never a name or an id of content.
const ROUTES = [
  [/^\/erase$/, "erase", "./officer/person.js"],
  [/^\/(requests|retention)$/, "requests", "./officer/waiting.js"],
  [/^\/(holds)$/, "holds", "./officer/waiting.js"],
  [/^\/erased\/([0-9]+)$/, "ledger", "./officer/erasure.js"],
  [/^\/memories$/, "memories", "./engineer/overview.js"],
  [/^\/m\/([^/]+)(?:\/(map|ask|certificates|erase|ledger))?$/, "memories", "./memory.js"],
  [/^\/ledger$/, "ledger", "./ledger/ledger.js"],
  [/^\/ledger\/([0-9]+)$/, "ledger", "./ledger/receipt.js"],
  [/^\/verify$/, "verify", "./verification.js"],
  [/^\/report$/, "report", "./report.js"],
];

const mayBeSeen = ({ scopes, storeWide = false }) =>
  scopes.length === 0 || (session.may(...scopes) && (!storeWide || session.isStoreWide));

function currentRoute() {
  const [address, query = ""] = (location.hash.replace(/^#/, "") || "/").split(/\?(.*)/s);
  const start = address === "/";
  const path = start ? SECTIONS.find(mayBeSeen).href.slice(1) : address;
  for (const [pattern, name, module] of ROUTES) {
    const found = pattern.exec(path);
    if (!found) continue;
    const parameters = found.slice(1).map((text) => text && decodeURIComponent(text));
    // The start is for those who have signed in, whatever they see there.
    const open = !start && SECTIONS.find((section) => section.name === name).scopes.length === 0;
    return { section: name, module, parameters, query: new URLSearchParams(query), open };
  }
  return null;
}

async function draw() {
  viewAbort?.abort();
  viewAbort = new AbortController();
  const { signal } = viewAbort;
  const route = currentRoute();
  main.setAttribute("aria-busy", "true");
  drawFrame(session.about !== null || route?.open ? route?.section : null);
  if (route === null) return finish("Not found", missing());
  if (session.about !== null) signOutReason = null;
  else if (!route.open) {
    const { signIn } = await import("./signin.js");
    return finish("Sign in", signIn(draw, signOutReason));
  }
  // What takes a moment says so, unless another view is on screen by then; what does not, does not flicker.
  const waiting = setTimeout(() => signal.aborted || replace(main, loading("")), LOADING_DELAY);
  try {
    const { view } = await import(route.module);
    const { title, content } = await view(route.parameters, signal, route.query);
    if (!signal.aborted) finish(title, content);
  } catch (error) {
    if (error.name !== "AbortError" && !signal.aborted)
      finish("Not shown", h("h1", {}, "This cannot be shown"), problem(error, error.status === 404 ? null : draw));
  } finally {
    clearTimeout(waiting);
  }
  return undefined;
}

function finish(title, ...content) {
  document.title = `${title} · expunge`;
  replace(main, content);
  main.setAttribute("aria-busy", "false");
  // A change inside a view keeps the focus; a new view gets it, so that keyboards and readers start at its top.
  if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  announce(title);
}

function missing() {
  return h("div", {}, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Go to the start")));
}

function drawFrame(section) {
  const signed = session.about !== null;
  replace(
    document.getElementById("nav"),
    SECTIONS.filter(mayBeSeen).map(({ name, href, label }) =>
      h("a", { href, "aria-current": name === section ? "page" : null }, label),
    ),
  );
  replace(
    document.getElementById("who"),
    signed ? h("button", { type: "button", class: "quiet", onclick: signOut }, "Sign out") : null,
  );
}

function signOut() {
  forgetErasures();
  session.signOut();
  location.hash = "#/";
  draw();
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) start();
  else draw();
});
const offline = document.getElementById("offline");
for (const happened of ["online", "offline"]) addEventListener(happened, () => (offline.hidden = navigator.onLine));
offline.hidden = navigator.onLine;
// The address is the route, so the link to the content moves the focus and not the address.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("signedout", (event) => {
  signOutReason = event.detail;
  draw();
});

async function start() {
  const token = session.takeFromAddress() ?? session.token;
  if (token !== null) {
    try {
      await session.signIn(token);
    } catch (error) {
      session.signOut();
      signOutReason = error;
    }
  }
  await draw();
}

await start();
