/* The figures that are looked at first. */

import { serverNow } from "../api.js";
import { h } from "../dom.js";
import { figuresOf } from "../feed.js";
import { ago, count, rate, short, span } from "../format.js";
import { theFeed } from "../watching.js";

export function summary({ status }) {
  const waiting = status.inputs.reduce((sum, each) => sum + each.waiting, 0);
  const since = status.inputs.map((each) => each.waiting_ms).filter((each) => each !== null);
  const nothing = status.inputs.some((each) => each.unasked) ? "as far as nodes have said" : "all input is committed";
  // Of a pipeline that rests, a rate would tell of the past as if it were now.
  const runs = status.phase === "running";
  const figures = figuresOf(theFeed()?.steps ?? []);
  return h(
    "dl",
    { class: "figures", key: "summary" },
    figure("Last step", status.step ? count(status.step) : "none yet", status.step_ms && ago(status.step_ms, serverNow())),
    figure("Waiting", waiting ? short(waiting) : "nothing", waiting ? since.length && `for ${span(Math.max(...since))}` : nothing),
    runs && figures && figure("Steps", `${rate(figures.stepRate)}/s`, `of the last ${count(figures.steps)}`),
    runs && figures && figure("Records in", `${rate(figures.recordRate)}/s`, null),
    figures && figure("A step takes", span(figures.medianMs), `median; up to ${span(figures.slowestMs)}`),
    figure(
      "Checkpoint",
      status.checkpoint ? `step ${count(status.checkpoint)}` : "none",
      status.checkpoint ? behind(status) : null,
    ),
  );
}

function behind(status) {
  const steps = status.step - status.checkpoint;
  return steps ? `${count(steps)} ${steps === 1 ? "step" : "steps"} ago` : "of the last step";
}

function figure(name, value, more) {
  return h(
    "div",
    { key: name },
    h("dt", {}, name),
    h("dd", {}, h("span", { class: "value" }, value), more && h("span", { class: "more" }, more)),
  );
}
