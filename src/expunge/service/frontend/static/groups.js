// The groups of entries and the mark of each: a shape and a colour, so that neither is needed alone.

import { h, svg } from "./element.js";

// In the order in which they are listed. Each shape is drawn with relative commands from where the entry is, so that a whole group is one path.
export const GROUPS = {
  margin: { label: "margin", about: "weighs something; lies on the boundary", shape: "m0-5 5 5-5 5-5-5z" },
  bound: {
    label: "bound",
    about: "has all the weight that the cap allows; lies outside",
    shape: "m-3.6-3.6h7.2v7.2h-7.2z",
  },
  reserve: { label: "reserve", about: "weighs nothing now; lies inside", shape: "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z" },
  archived: { label: "archived", about: "proved to weigh nothing, and set aside", shape: "m-4.2-3h8.4l-4.2 7.4z" },
  forgotten: {
    label: "forgotten",
    about: "proved to weigh nothing; its content is gone",
    shape: "m-4.5 0h3m3 0h3m-4.5-4.5v3m0 3v3",
  },
  erased: {
    label: "erased",
    about: "deleted; nothing is left of it but a commitment",
    shape: "m-3.8-3.8 7.6 7.6m0-7.6-7.6 7.6",
  },
};

export const mark = (group) =>
  svg(
    "svg",
    { class: `mark ${group}`, viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" },
    svg("path", { d: `M0 0${GROUPS[group].shape}` }),
  );

export const tag = (group) => h("span", { class: "tag" }, mark(group), GROUPS[group].label);
