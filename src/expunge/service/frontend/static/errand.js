// What one view asks of the next, handed over in memory: ids and subjects do not belong into the browser's history.

let waiting = {};

export function send(errand) {
  waiting = errand;
}

// Taken once: a view that is opened again starts afresh.
export function take() {
  const errand = waiting;
  waiting = {};
  return errand;
}
