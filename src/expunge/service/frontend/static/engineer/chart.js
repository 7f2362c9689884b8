// The map itself: entries in two coordinates, one path a group, and the boundary where there is one.
// It answers to the pointer; whatever it shows is also in a list beside it, for keyboards and readers.

import { h, replace, svg } from "../element.js";
import { GROUPS, mark } from "../groups.js";
import { percent } from "../numbers.js";

const NEAR = 16; // pixels
const PADDING = 22;
const CROWD = 250; // entries
const SMALL = 0.75;
// What weighs more lies above what weighs less.
const LAYERS = ["reserve", "archived", "bound", "margin", "erased"];

export const BOUNDARY =
  "The line is the boundary of what the memory knows: margin entries lie on it, reserve entries inside, bound entries outside.";

export class Chart {
  // options: pick(point) when an entry is clicked; ask([x, y]) when a place is clicked, instead.
  constructor({ points, boundary = null, label, pick = null, ask = null, signal }) {
    Object.assign(this, { points, boundary, pick, ask });
    this.hidden = new Set();
    this.matching = null; // ids that are not faint, or null for all
    this.chosen = null;
    this.query = null;
    this.hits = new Map(); // id → share
    this.svg = svg("svg", { role: "img", "aria-label": label, class: ask ? "chart asking" : "chart" });
    this.tip = h("div", { class: "tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    this.element = h("div", { class: "chart-frame" }, this.svg, this.tip);
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => this.hover(null));
    this.svg.addEventListener("click", (event) => this.click(event));
    const watch = new ResizeObserver(() => this.draw());
    watch.observe(this.element);
    signal?.addEventListener("abort", () => watch.disconnect());
  }

  // One scale for both axes: the kernel knows no direction.
  layout() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !height) return false;
    const lines = this.boundary?.polylines.flat() ?? [];
    const xs = [
      ...this.points.map((point) => point.x),
      ...lines.map(([x]) => x),
      ...(this.query ? [this.query.x] : []),
    ];
    const ys = [
      ...this.points.map((point) => point.y),
      ...lines.map(([, y]) => y),
      ...(this.query ? [this.query.y] : []),
    ];
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const scale = Math.min((width - 2 * PADDING) / (right - left || 1), (height - 2 * PADDING) / (high - low || 1));
    Object.assign(this, { width, height, scale, centre: [(left + right) / 2, (low + high) / 2] });
    return true;
  }

  toScreen(x, y) {
    return [this.width / 2 + (x - this.centre[0]) * this.scale, this.height / 2 - (y - this.centre[1]) * this.scale];
  }

  toMap(left, top) {
    return [
      this.centre[0] + (left - this.width / 2) / this.scale,
      this.centre[1] - (top - this.height / 2) / this.scale,
    ];
  }

  draw() {
    if (!this.points.length || !this.layout()) return;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const groups = LAYERS.flatMap((group) => this.drawGroup(group));
    replace(this.svg, this.drawBoundary(), this.drawHits(), groups, this.drawChosen(), this.drawQuery());
  }

  drawGroup(group) {
    const shown = this.points.filter((point) => point.group === group && !this.hidden.has(group));
    const faint = this.matching === null ? [] : shown.filter((point) => !this.matching.has(point.id));
    const clear = this.matching === null ? shown : shown.filter((point) => this.matching.has(point.id));
    // Crowded maps have smaller marks: the path is drawn larger and scaled down as a whole.
    const size = this.points.length > CROWD ? SMALL : 1;
    const transform = size === 1 ? null : `scale(${size})`;
    return [
      [faint, " faint"],
      [clear, ""],
    ]
      .filter(([points]) => points.length)
      .map(([points, how]) =>
        svg("path", {
          class: `mark ${group}${how}`,
          transform,
          d: points.map((point) => this.shape(point, size)).join(""),
        }),
      );
  }

  shape(point, size) {
    const [left, top] = this.toScreen(point.x, point.y);
    return `M${(left / size).toFixed(1)} ${(top / size).toFixed(1)}${GROUPS[point.group].shape}`;
  }

  drawBoundary() {
    if (this.boundary === null) return null;
    const d = this.boundary.polylines
      .map(
        (line) =>
          `M${line
            .map(([x, y]) =>
              this.toScreen(x, y)
                .map((at) => at.toFixed(1))
                .join(" "),
            )
            .join("L")}`,
      )
      .join("");
    return svg("path", { class: "boundary", d });
  }

  drawHits() {
    const most = Math.max(...this.hits.values(), 0);
    return this.points
      .filter((point) => this.hits.has(point.id))
      .map((point) => {
        const [cx, cy] = this.toScreen(point.x, point.y);
        return svg("circle", { class: "hit", cx, cy, r: 6 + 16 * Math.sqrt(this.hits.get(point.id) / most) });
      });
  }

  drawChosen() {
    const point = this.points.find((one) => one.id === this.chosen);
    if (!point) return null;
    const [cx, cy] = this.toScreen(point.x, point.y);
    return svg("circle", { class: "chosen", cx, cy, r: 9 });
  }

  drawQuery() {
    if (this.query === null) return null;
    const [x, y] = this.toScreen(this.query.x, this.query.y);
    return svg("path", { class: "query", d: `M${x - 9} ${y}h18M${x} ${y - 9}v18` });
  }

  nearest(event) {
    const box = this.svg.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let least = NEAR;
    for (const point of this.points) {
      if (this.hidden.has(point.group)) continue;
      const [x, y] = this.toScreen(point.x, point.y);
      const distance = Math.hypot(x - left, y - top);
      if (distance < least) [best, least] = [point, distance];
    }
    return { point: best, left, top };
  }

  hover(event) {
    const { point } = event && this.centre ? this.nearest(event) : {};
    this.tip.hidden = !point;
    this.svg.classList.toggle("over", Boolean(point));
    if (!point) return;
    const share = this.hits.get(point.id);
    replace(
      this.tip,
      h("b", {}, point.id),
      point.subject ? h("span", {}, point.subject) : null,
      h("span", {}, GROUPS[point.group].label + (share === undefined ? "" : `, ${percent(share)} of the answer`)),
    );
    const [left, top] = this.toScreen(point.x, point.y);
    const room = this.width - this.tip.offsetWidth - 8;
    this.tip.style.left = `${Math.max(4, Math.min(left + 12, room))}px`;
    this.tip.style.top = `${Math.max(4, top > 70 ? top - this.tip.offsetHeight - 10 : top + 14)}px`;
  }

  click(event) {
    if (!this.centre) return;
    const { point, left, top } = this.nearest(event);
    if (this.ask) this.ask(this.toMap(left, top), point);
    else if (point && this.pick) this.pick(point);
  }
}

// Live and archived entries with their places, as the service's map has them.
export function placed(map) {
  return [...map.entries, ...map.archived.map((entry) => ({ ...entry, group: "archived" }))];
}

export function legend(map, toggle = null) {
  const points = placed(map);
  return h(
    "ul",
    { class: "legend" },
    Object.keys(GROUPS).map((group) => {
      const number =
        group === "erased"
          ? map.erased_total
          : group === "forgotten"
            ? map.forgotten.length
            : points.filter((point) => point.group === group).length;
      return number ? legendItem(group, number, points.some((point) => point.group === group) ? toggle : null) : null;
    }),
    map.boundary
      ? h(
          "li",
          { title: BOUNDARY },
          svg(
            "svg",
            { viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" },
            svg("path", { class: "boundary", d: "M-7 0h14" }),
          ),
          " boundary",
        )
      : null,
  );
}

function legendItem(group, number, toggle) {
  const text = [mark(group), h("b", {}, String(number)), ` ${GROUPS[group].label}`];
  if (toggle === null) return h("li", { title: GROUPS[group].about }, text);
  const button = h(
    "button",
    { type: "button", class: "legend-toggle", "aria-pressed": "true", title: GROUPS[group].about },
    text,
  );
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    toggle(group, shown);
  });
  return h("li", {}, button);
}
