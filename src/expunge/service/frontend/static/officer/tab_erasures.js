// The erasures that were begun in this tab: whom, under which idempotency key, and at which leaf they ended. The key gets
// the same answer again, salt included, for as long as the service keeps it. Gone with the tab, and with signing out.

import { session } from "../session.js";

const PLACE = "expunge.erasures";
// Less than the service keeps an answer: after that, the same request would be a new one.
const KEPT = 6 * 86_400_000; // milliseconds

function all() {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE)) ?? [];
  } catch {
    return [];
  }
}

const keep = (records) => sessionStorage.setItem(PLACE, JSON.stringify(records));
const here = () => all().filter(({ store, begun }) => store === session.about.store && Date.now() - begun < KEPT);

// The one whose answer has not come, and the one that ended at a leaf; undefined where there is none.
export const openErasure = () => here().find(({ leaf }) => leaf === null);
export const erasureAt = (leaf) => here().find((record) => record.leaf === leaf);

export function begin(record) {
  const made = { ...record, store: session.about.store, begun: Date.now(), leaf: null };
  keep([...all().filter(({ key }) => key !== record.key), made]);
  return made;
}

export const endAt = (key, leaf) => keep(all().map((record) => (record.key === key ? { ...record, leaf } : record)));
export const drop = (key) => keep(all().filter((record) => record.key !== key));
export const forgetErasures = () => sessionStorage.removeItem(PLACE);
