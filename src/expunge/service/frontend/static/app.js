// The frame of the page: sign-in, navigation, and the view of the current route. Views are named for what they show.

import { announce, h, replace } from "./element.js";
import { session } from "./session.js";
import { loading, problem } from "./view_state.js";

const LOADING_DELAY = 250; // milliseconds
const main = document.getElementById("main");
let viewAbort = null; // aborts the requests of the view on screen
let signOutReason = null; // why the session ended, for the sign-in view

const SECTIONS = [
  ["memories", "#/", "Memories"],
  ["ledger", "#/ledger", "Ledger"],
  ["verify", "#/verify", "Verify"],
  ["report", "#/report", "Report"],
];

// Route → module; each exports `view(parameters, signal)`, which returns { title, content }.
const ROUTES = [
  [/^\/$/, "memories", "./overview.js"],
  [/^\/m\/([^/]+)\/(map|ask|certificates|erase|ledger)$/, "memories", "./memory.js"],
  [/^\/ledger$/, "ledger", "./ledger.js"],
  [/^\/ledger\/([0-9]+)$/, "ledger", "./receipt.js"],
  [/^\/report$/, "report", "./report.js"],
];

function currentRoute() {
  const path = location.hash.replace(/^#/, "") || "/";
  if (path === "/verify") return { section: "verify", module: "./verification.js", parameters: [], open: true };
  for (const [pattern, section, module] of ROUTES) {
    const found = pattern.exec(path);
    if (found) return { section, module, parameters: found.slice(1).map(decodeURIComponent), open: false };
  }
  return null;
}

async function draw() {
  viewAbort?.abort();
  viewAbort = new AbortController();
  const { signal } = viewAbort;
  const route = currentRoute();
  main.setAttribute("aria-busy", "true");
  drawFrame(route?.section);
  if (route === null) return finish("Not found", missing());
  // Verification needs no service and no token.
  if (session.about !== null) signOutReason = null;
  else if (!route.open) {
    const { signIn } = await import("./signin.js");
    return finish("Sign in", signIn(draw, signOutReason));
  }
  // What takes a moment says so; what does not, does not flicker.
  const waiting = setTimeout(() => replace(main, loading("")), LOADING_DELAY);
  try {
    const { view } = await import(route.module);
    const { title, content } = await view(route.parameters, signal);
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
  return h("div", {}, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Go to the memories")));
}

function drawFrame(section) {
  const signed = session.about !== null;
  replace(
    document.getElementById("nav"),
    SECTIONS.filter(([name]) => signed || name === "verify").map(([name, href, label]) =>
      h("a", { href, "aria-current": name === section ? "page" : null }, label),
    ),
  );
  replace(
    document.getElementById("who"),
    signed ? h("button", { type: "button", class: "quiet", onclick: signOut }, "Sign out") : null,
  );
}

function signOut() {
  session.signOut();
  location.hash = "#/";
  draw();
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) start();
  else draw();
});
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
