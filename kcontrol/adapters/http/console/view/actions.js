/* The buttons, and what has become of what was asked for. A button that can't be used now says why, and keeps its focus. */

import { h } from "../dom.js";
import { time } from "../format.js";
import { dismiss, isPending, request, wordsOf } from "../requests.js";
import { state } from "../store.js";
import { look } from "../watching.js";
import { confirm } from "./confirm.js";

export function actions(status) {
  const halted = status.phase === "halted";
  const rests = status.desired !== "running";
  return h(
    "div",
    { class: "actions", role: "group", "aria-label": `Ask of ${status.pipeline}` },
    button(status, "pause", rests ? `It is to be ${status.desired} already.` : ""),
    button(status, halted ? "resume" : "start", halted || rests ? "" : "It is to run already."),
    button(status, "checkpoint", ["running", "starting"].includes(status.phase) ? "" : "It is saved only while it runs."),
    button(status, "stop", status.desired === "stopped" ? "It is to be stopped already." : ""),
  );
}

/** What was asked for in this tab, newest first. */
export function requests(status) {
  const own = state.requests.filter((each) => each.name === status.pipeline);
  return (
    own.length > 0 && h("ul", { role: "list", class: "requests", key: "requests", "aria-label": "Requests" }, own.map(asked))
  );
}

const LABELS = { pause: "Pause", start: "Resume", resume: "Resume", checkpoint: "Checkpoint", stop: "Stop…" };
const HINTS = {
  pause: "Make no more steps; the nodes stay open.",
  start: "Go on after the pause or stop.",
  resume: "Lift the halt and go on: put right first what has halted it.",
  checkpoint: "Save the state of all nodes now, without stopping the steps.",
  stop: "Make no more steps and shut the nodes' processes down.",
};

function button(status, action, whyNot) {
  const pending = isPending(status.pipeline, action);
  const off = Boolean(whyNot) || pending;
  const place = action === "resume" ? "start" : action;
  return h(
    "button",
    {
      key: place,
      type: "button",
      class: action === "stop" ? "danger" : null,
      title: whyNot || (pending ? "It was asked for; see below." : HINTS[action]),
      "aria-disabled": off ? "true" : null,
      onclick: off ? null : () => ask(status, action),
    },
    LABELS[action],
  );
}

async function ask(status, action) {
  if (action === "stop" && !(await confirm(aboutStop(status)))) return;
  await request(status.pipeline, action);
  look();
}

function aboutStop(status) {
  const many = status.nodes.length === 1 ? "its node's process" : `the processes of its ${status.nodes.length} nodes`;
  return {
    title: `Stop ${status.pipeline}?`,
    text:
      `It makes no more steps, and ${many} shut down. Nothing that is committed is lost. Resume alone does not bring ` +
      "it back: the nodes must be started again. To hold it for a while, pause it instead.",
    yes: "Stop it",
  };
}

function asked(each) {
  const bad = ["failed", "refused", "unknown"].includes(each.state);
  return h(
    "li",
    { key: each.key, class: bad ? "bad" : null },
    h("span", { class: "when" }, time(each.askedMs)),
    h("span", {}, h("strong", {}, each.label), ` ${bad && each.state !== "failed" ? `${each.state}: ` : ""}${wordsOf(each)}`),
    h("button", { type: "button", class: "quiet", "aria-label": `Dismiss: ${each.label}`, onclick: () => dismiss(each) }, "×"),
  );
}
