// Arguments that one view passes to the next, in memory: ids and subjects do not belong into the browser's history.

let passed = {};

export function passArguments(values) {
  passed = values;
}

// Returned once: a view that is opened again has none.
export function takeArguments() {
  const values = passed;
  passed = {};
  return values;
}
