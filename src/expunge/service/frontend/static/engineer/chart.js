// The map itself: entries in two coordinates, one path a group, and the boundary where there is one.
// It answers to the pointer; whatever it shows is also in a list beside it, for keyboards and readers.

import { h, replace, svg } from "../element.js";
import { GROUPS, mark } from "../groups.js";
import { percent, plural } from "../numbers.js";

const NEAR = 16; // pixels
const PADDING = 22;
// From how many entries in view on marks are smaller, and how much.
const CROWDS = [
  [2500, 0.42],
  [250, 0.75],
];
const STEP = 1.6; // one press of a button
const DRAGGED = 4; // pixels
// Few entries far away from all others do not decide what is seen first.
const [MOST, FAR] = [0.01, 3];
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
    this.view = null; // null: as much as fits; else { centre, zoom } that somebody chose
    this.outside = h("span", { class: "muted", role: "status" });
    this.frame = h("div", { class: "chart-frame" }, this.svg, this.tip);
    this.element = h("div", { class: "stack" }, this.controls(), this.frame);
    this.svg.addEventListener("pointermove", (event) => this.move(event));
    this.svg.addEventListener("pointerdown", (event) => this.grab(event));
    this.svg.addEventListener("pointerup", () => (this.held = null));
    this.svg.addEventListener("pointercancel", () => (this.held = null));
    this.svg.addEventListener("pointerleave", () => this.hover(null));
    this.svg.addEventListener("click", (event) => this.click(event));
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    const watch = new ResizeObserver(() => this.draw());
    watch.observe(this.frame);
    signal?.addEventListener("abort", () => watch.disconnect());
  }

  controls() {
    const button = (name, sign, act) => h("button", { type: "button", "aria-label": name, title: name, onclick: act }, sign);
    const pan = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const keyed = (event) => {
      const way = pan[event.key];
      if (!way || !this.centre) return;
      event.preventDefault();
      this.look([this.centre[0] + (way[0] * this.width) / 6 / this.scale, this.centre[1] + (way[1] * this.height) / 6 / this.scale], this.scale);
    };
    return h(
      "div",
      { class: "row chart-controls no-print", role: "group", "aria-label": "Zoom: arrow keys move the map", onkeydown: keyed },
      button("Zoom in", "+", () => this.zoom(STEP)),
      button("Zoom out", "−", () => this.zoom(1 / STEP)),
      button("Show every entry", "All", () => this.show(this.bounds(0))),
      button("Show where most entries are", "Most", () => this.show(this.bounds(MOST))),
      this.outside,
    );
  }

  // The rectangle around all entries, or all but the outermost share of them on each side.
  bounds(share) {
    const lines = share ? [] : (this.boundary?.polylines.flat() ?? []);
    const extent = (values) => {
      const sorted = values.sort((one, other) => one - other);
      const cut = Math.floor(share * sorted.length);
      return [sorted[cut], sorted[sorted.length - 1 - cut]];
    };
    const extra = this.query && !share ? [this.query] : [];
    const [left, right] = extent([...this.points.map(({ x }) => x), ...lines.map(([x]) => x), ...extra.map(({ x }) => x)]);
    const [low, high] = extent([...this.points.map(({ y }) => y), ...lines.map(([, y]) => y), ...extra.map(({ y }) => y)]);
    return { left, right, low, high };
  }

  // One scale for both axes: the kernel knows no direction.
  fitted({ left, right, low, high }) {
    const scale = Math.min((this.width - 2 * PADDING) / (right - left || 1), (this.height - 2 * PADDING) / (high - low || 1));
    return { centre: [(left + right) / 2, (low + high) / 2], scale };
  }

  layout() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !height) return false;
    Object.assign(this, { width, height });
    if (this.view === null) {
      const [all, most] = [this.bounds(0), this.bounds(MOST)];
      const far = all.right - all.left > FAR * (most.right - most.left) || all.high - all.low > FAR * (most.high - most.low);
      const hidesQuery = this.query !== null && !within(most, this.query);
      Object.assign(this, this.fitted(far && !hidesQuery && most.right > most.left && most.high > most.low ? most : all));
    } else Object.assign(this, this.view);
    return true;
  }

  show(bounds) {
    if (this.width) this.look(...Object.values(this.fitted(bounds)));
  }

  look(centre, scale) {
    this.view = { centre, scale };
    this.centre = centre;
    this.scale = scale;
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.draw();
    });
  }

  // Around the middle, or around a place on screen, which stays where it is.
  zoom(factor, at = [this.width / 2, this.height / 2]) {
    if (!this.centre) return;
    const [x, y] = this.toMap(...at);
    const scale = this.scale * factor;
    this.look([x - (at[0] - this.width / 2) / scale, y + (at[1] - this.height / 2) / scale], scale);
  }

  // With the control key, as a pinch on a touch pad is, too: without it the wheel moves the page.
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 250), [event.clientX - box.left, event.clientY - box.top]);
  }

  grab(event) {
    if (event.button === 0 && this.centre) this.held = { x: event.clientX, y: event.clientY, centre: this.centre, moved: false };
  }

  move(event) {
    if (!this.held) return this.hover(event);
    const [right, down] = [event.clientX - this.held.x, event.clientY - this.held.y];
    if (!this.held.moved && Math.hypot(right, down) < DRAGGED) return undefined;
    if (!this.held.moved) this.svg.setPointerCapture(event.pointerId);
    this.held.moved = true;
    this.dragged = true;
    this.tip.hidden = true;
    return this.look([this.held.centre[0] - right / this.scale, this.held.centre[1] + down / this.scale], this.scale);
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
    const room = { left: -PADDING, right: this.width + PADDING, low: -PADDING, high: this.height + PADDING };
    this.seen = this.points.filter((point) => {
      const [x, y] = this.toScreen(point.x, point.y);
      return within(room, { x, y });
    });
    const away = this.points.length - this.seen.length;
    this.outside.textContent = away ? `${plural(away, "entry lies", "entries lie")} outside this view.` : "";
    this.size = CROWDS.find(([crowd]) => this.seen.length > crowd)?.[1] ?? 1;
    this.svg.classList.toggle("crowded", this.size < CROWDS[1][1]);
    const groups = LAYERS.flatMap((group) => this.drawGroup(group));
    replace(this.svg, this.drawBoundary(), this.drawHits(), groups, this.drawChosen(), this.drawQuery());
  }

  drawGroup(group) {
    const shown = this.seen.filter((point) => point.group === group && !this.hidden.has(group));
    const faint = this.matching === null ? [] : shown.filter((point) => !this.matching.has(point.id));
    const clear = this.matching === null ? shown : shown.filter((point) => this.matching.has(point.id));
    // Crowded maps have smaller marks: the path is drawn larger and scaled down as a whole.
    const { size } = this;
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
    for (const point of this.seen) {
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
    // The end of a movement is no choice.
    const dragged = this.dragged;
    this.dragged = false;
    if (!this.centre || dragged) return;
    const { point, left, top } = this.nearest(event);
    if (this.ask) this.ask(this.toMap(left, top), point);
    else if (point && this.pick) this.pick(point);
  }
}

const within = ({ left, right, low, high }, { x, y }) => left <= x && x <= right && low <= y && y <= high;

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
