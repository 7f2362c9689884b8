// The erasures that were begun in this tab: whom, under which idempotency key, and at which leaf they ended. The key gets
// the same answer again, salt included, for as long as the service keeps it. Gone with the tab, and with signing out.

import { session } from "../session.js";

const PLACE = "expunge.erasures";

function all() {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE)) ?? [];
  } catch {
    return [];
  }
}

const keep = (records) => sessionStorage.setItem(PLACE, JSON.stringify(records));
const here = () => all().filter(({ store }) => store === session.about.store);

// The one whose answer has not come, and the one that ended at a leaf; undefined where there is none.
export const openErasure = () => here().find(({ leaf }) => leaf === null);
export const erasureAt = (leaf) => here().find((record) => record.leaf === leaf);

export function begin(record) {
  const begun = { ...record, store: session.about.store, leaf: null };
  keep([...all().filter(({ key }) => key !== record.key), begun]);
  return begun;
}

export const endAt = (key, leaf) => keep(all().map((record) => (record.key === key ? { ...record, leaf } : record)));
export const drop = (key) => keep(all().filter((record) => record.key !== key));
export const forgetErasures = () => sessionStorage.removeItem(PLACE);
