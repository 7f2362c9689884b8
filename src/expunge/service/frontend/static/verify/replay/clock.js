// The times of leaves: they do not run back, and do not come after those who have seen the leaves.

// How far two clocks may differ, in seconds.
export const SKEW = 300;

export class LedgerClock {
  // `seen` has sizes of heads, and when somebody saw each, in seconds since 1970.
  constructor(now, seen) {
    this.now = now;
    this.latest = null;
    this.heads = [...seen].sort((one, other) => one.size - other.size);
    for (let at = this.heads.length - 2; at >= 0; at -= 1)
      this.heads[at] = { size: this.heads[at].size, time: Math.min(this.heads[at].time, this.heads[at + 1].time) };
  }

  check(place) {
    if (this.now !== null && place.seconds > this.now + SKEW) {
      const ahead = Math.round(place.seconds - this.now);
      place.contradicts("ledger-time-future", `it is dated ${ahead} s later than now; check this machine's clock`);
    }
    const head = this.heads.find(({ size }) => size > place.leaf);
    if (head && place.seconds > head.time + SKEW) {
      const after = place.seconds - head.time;
      place.contradicts("ledger-time-after-head", `it is dated ${after} s after somebody saw a head with it`);
    }
  }

  advance(place) {
    if (this.latest !== null && place.seconds < this.latest.seconds - SKEW) {
      const before = this.latest.seconds - place.seconds;
      place.contradicts("ledger-time-reversed", `it is dated ${before} s before leaf ${this.latest.leaf}`);
    }
    if (this.latest === null || place.seconds > this.latest.seconds) this.latest = place;
  }
}
