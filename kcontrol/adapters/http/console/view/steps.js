/* The newest steps: a strip of bars and the last few as a table. They follow the log, but hold still while somebody looks at
   them: nobody can point at, or read, what moves. */

import { h } from "../dom.js";
import { count } from "../format.js";
import { change, state } from "../store.js";
import { theFeed } from "../watching.js";
import { find } from "./find.js";
import { recentSteps } from "./recent_steps.js";
import { strip } from "./strip.js";

const TABLE_ROWS = 10;

/** Whether the reader has asked to hold them, has the pointer there, or the keyboard. */
const hold = { asked: false, pointer: false, keyboard: false };
/** Whether the keyboard was touched last. A click gives focus too, but does not say that the reader stays there. */
let byKey = false;
addEventListener("keydown", () => (byKey = true), true);
addEventListener("pointerdown", () => (byKey = false), true);

let shown = { name: "", steps: [] };

export function steps(status) {
  const feed = theFeed();
  const fresh = feed?.name === status.pipeline ? feed.steps : [];
  if (shown.name !== status.pipeline) Object.assign(hold, { asked: false, pointer: false, keyboard: false });
  const still = hold.asked || hold.pointer || hold.keyboard || state.step !== null;
  if (!still || shown.name !== status.pipeline || !shown.steps.length) shown = { name: status.pipeline, steps: fresh };
  return h(
    "section",
    { class: "panel", key: "steps", "aria-labelledby": "steps-title" },
    h(
      "div",
      { class: "heading" },
      h("h2", { id: "steps-title" }, "Steps"),
      h("span", { class: "sub" }, still ? heldWords(fresh) : "newest on the right"),
      fresh.length > 0 &&
        h("button", { type: "button", class: "quiet", "aria-pressed": String(hold.asked), onclick: toggle }, "Hold"),
    ),
    shown.steps.length
      ? h(
          "div",
          { onpointerenter: entered, onpointerleave: left, onfocusin: focused, onfocusout: blurred },
          strip(status.pipeline, shown.steps),
          recentSteps(status.pipeline, shown.steps.slice(-TABLE_ROWS - 1), TABLE_ROWS),
        )
      : h("p", { class: "empty" }, "No step is committed yet."),
    shown.steps.length > 0 && find(status),
  );
}

function heldWords(fresh) {
  const newer = fresh.length && shown.steps.length ? fresh.at(-1).step - shown.steps.at(-1).step : 0;
  return `${hold.asked ? "held" : "held while you look"}${newer > 0 ? `; ${count(newer)} newer` : ""}`;
}

const toggle = () => keep("asked", !hold.asked);
// A finger does not stay.
const entered = (event) => event.pointerType === "mouse" && keep("pointer", true);
const left = () => keep("pointer", false);
const focused = () => keep("keyboard", byKey);
const blurred = (event) => event.currentTarget.contains(event.relatedTarget) || keep("keyboard", false);

function keep(what, value) {
  if (hold[what] === value) return;
  hold[what] = value;
  change();
}
