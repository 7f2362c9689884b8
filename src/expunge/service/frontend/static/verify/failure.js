// A check that did not hold. Its name is the one that docs/formats/ gives to it, the same in every implementation.

export class VerificationError extends Error {
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

// What this browser has no means to check; it says nothing for or against the file.
export class Unchecked extends Error {}

export function fail(name, message) {
  throw new VerificationError(name, message);
}

// Foreign text in a message: quoted and short.
export function show(value) {
  return (typeof value === "string" ? `“${value}”` : String(JSON.stringify(value))).slice(0, 80);
}
