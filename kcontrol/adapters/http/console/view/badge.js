/* A state: its name, with a shape and a colour that only repeat it. */

import { h } from "../dom.js";

const SHAPES = {
  running: "●",
  processing: "●",
  open: "●",
  member: "●",
  completed: "●",
  waiting: "○",
  prepared: "○",
  accepted: "○",
  collecting: "○",
  draining: "❙❙",
  resetting: "❙❙",
  going_back: "❙❙",
  killed: "■",
  starting: "○",
  paused: "❙❙",
  closed: "○",
  stopped: "■",
  absent: "×",
  silent: "×",
  away: "×",
  standing_by: "○",
  unknown: "×",
  unhealthy: "▲",
  spent: "▲",
  halted: "▲",
  failed: "▲",
  broken: "▲",
};

/** text: where the name is none for people. */
export function badge(name, text = name) {
  return h(
    "span",
    { class: `badge is-${name}` },
    h("span", { class: "shape", "aria-hidden": "true" }, SHAPES[name] ?? "○"),
    text,
  );
}
