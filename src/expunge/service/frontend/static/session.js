// The bearer token, for as long as the tab lives, and requests made with it. The token is in no address and no cookie.

const TOKEN = "expunge.token";

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The service answered ${status}.`);
    this.status = status;
    this.title = document.title || `Status ${status}`;
    this.error = document.error ?? null;
    this.receipt = document.receipt ?? null;
    this.fields = document.fields ?? [];
  }
}

export const session = {
  about: null, // what GET /v1 said

  get token() {
    return sessionStorage.getItem(TOKEN);
  },

  async signIn(token) {
    const about = await request("/v1", {}, token);
    sessionStorage.setItem(TOKEN, token);
    this.about = about;
  },

  signOut() {
    sessionStorage.removeItem(TOKEN);
    this.about = null;
  },

  // A link from the command line may carry a token behind the #, which is never sent; it is taken out at once.
  takeFromAddress() {
    const found = /^#token=(.+)$/.exec(location.hash);
    if (!found) return null;
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
    return decodeURIComponent(found[1]);
  },

  may(...scopes) {
    return scopes.some((scope) => this.about?.token.scopes.includes(scope));
  },

  get isStoreWide() {
    return this.about?.token.memory === null;
  },
};

// Where a path of the service is, which may be below a prefix of the address that the page was opened at.
export const url = (path) => new URL(path.slice(1), document.baseURI).href;

export const get = (path, signal) => request(path, { signal });

// Every item of a paginated list.
// `also` is shown each part, for what it says besides its items.
export async function all(path, signal, also = () => {}) {
  const items = [];
  let cursor = null;
  do {
    const joint = path.includes("?") ? "&" : "?";
    const part = await get(`${path}${joint}limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, signal);
    items.push(...part.items);
    also(part);
    cursor = part.next;
  } while (cursor);
  return items;
}

// A file that the service makes. Names of persons are in the body, because addresses are logged.
export async function fileOf(path, body) {
  const response = await fetch(url(path), {
    method: "POST",
    body: JSON.stringify(body),
    cache: "no-store",
    credentials: "omit",
    headers: { Authorization: `Bearer ${session.token}`, "Content-Type": "application/json" },
  });
  if (response.ok) return response.blob();
  throw new Problem(response.status, await response.json().catch(() => ({})));
}

export const post = (path, body, headers = {}, signal = undefined) =>
  request(path, {
    method: "POST",
    signal,
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...headers },
  });

export const remove = (path) => request(path, { method: "DELETE" });

// What a memory goes by in an address: its UUID, where its name has a slash or would be taken for something else.
export const addressOf = ({ name, uuid }) =>
  encodeURIComponent(/\/|^\.{1,2}$|^uuid:/.test(name) ? `uuid:${uuid}` : name);

export const memoryPath = (memory, rest = "") => `/v1/memories/${addressOf(memory)}${rest}`;

// crypto.randomUUID is withheld from pages that were not loaded securely; this is not.
export function newIdempotencyKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function request(path, options, token = session.token) {
  let response;
  try {
    response = await fetch(url(path), {
      ...options,
      cache: "no-store",
      credentials: "omit",
      headers: { Accept: "application/json", Authorization: `Bearer ${token}`, ...options.headers },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {
      title: "No answer",
      detail: navigator.onLine
        ? "The service does not answer. It may have stopped, or the network is down."
        : "This computer has no network.",
    });
  }
  const text = await response.text();
  let document;
  try {
    document = text === "" ? {} : JSON.parse(text);
  } catch {
    document = { detail: `The service answered ${response.status} with something that is not JSON.` };
  }
  if (response.ok) return document;
  const problem = new Problem(response.status, document);
  if (response.status === 401 && session.about !== null) {
    session.signOut();
    dispatchEvent(new CustomEvent("signedout", { detail: problem }));
  }
  throw problem;
}
