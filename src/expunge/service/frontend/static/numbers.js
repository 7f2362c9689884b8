// How numbers are written: few digits, tabular, never more precise than they are worth.

const grouped = new Intl.NumberFormat("en");
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

export const count = (number) => grouped.format(number);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${Number(number) === 1 ? one : many}`;

// The service writes what JSON has no numbers for as words.
export function quantity(number) {
  if (typeof number !== "number")
    return number === "inf" || number === undefined || number === null ? "∞" : String(number);
  if (!Number.isFinite(number)) return "∞";
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return number.toExponential(1).replace("e-", "e−").replace("e+", "e");
  return precise.format(number).replace("-", "−");
}

export function percent(fraction) {
  const share = fraction * 100;
  if (share > 0 && share < 0.1) return "< 0.1%";
  return `${share.toFixed(share < 10 ? 1 : 0)}%`;
}

// A bound stays one when it is rounded.
export function percentAtMost(fraction) {
  const share = fraction * 100;
  return percent(Math.ceil(share < 10 ? share * 10 : share) / (share < 10 ? 1000 : 100));
}

export const short = (digest) => `${digest.slice(0, 8)}…${digest.slice(-4)}`;

export function moment(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return String(time);
  return `${at.toISOString().slice(0, 10)} ${at.toISOString().slice(11, 19)} UTC`;
}
