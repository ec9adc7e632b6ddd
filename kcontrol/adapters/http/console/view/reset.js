/* The way back to a step of before, of a pipeline that has stopped: first what would be void, then, after a question, so. */

import { h } from "../dom.js";
import { count, counted } from "../format.js";
import { isPending, planReset, reset } from "../requests.js";
import { look } from "../watching.js";
import { confirm } from "./confirm.js";

/** Nothing of a pipeline that is to work, or has made no step to go back to. */
export function goBack(status) {
  if (status.desired !== "stopped" || status.step < 2) return null;
  return h(
    "section",
    { class: "panel", key: "reset", "aria-labelledby": "reset-title" },
    h("h2", { id: "reset-title" }, "Go back"),
    h("p", { class: "sub" }, "To a step of before, with its state and positions. Steps after it become void; their records stay."),
    form(status),
  );
}

function form(status) {
  const off = isPending(status.pipeline, "reset");
  return h(
    "form",
    { key: "form", class: "layout", onsubmit: (event) => ask(event, status, off) },
    field("to_step", "Last step that counts", { type: "number", min: 1, max: status.step - 1, step: 1, required: true }),
    field("why", "Why", { maxlength: 500 }),
    field("left", "Left behind", { placeholder: "names, with commas" }),
    h("button", { key: "ask", type: "submit", "aria-disabled": off ? "true" : null }, "Go back…"),
  );
}

function field(name, label, options) {
  return h("label", { key: name }, h("span", {}, label), h("input", { name, ...options }));
}

async function ask(event, status, off) {
  event.preventDefault();
  if (off) return;
  const { to_step: step, why, left } = event.target.elements;
  const names = left.value.split(",").map((each) => each.trim());
  const wanted = { to_step: Number(step.value), why: why.value, leave_behind: names.filter(Boolean) };
  const plan = await planReset(status.pipeline, wanted);
  if (!plan || !(await confirm(about(plan)))) return;
  await reset(status.pipeline, { ...wanted, by: "Console", last_step: plan.void_to });
  look();
}

function about(plan) {
  const records = Object.entries(plan.void_records).map(([topic, many]) => `${counted(many, "record")} in topic ${topic}`);
  const again = plan.rerun_steps
    ? ` A node that has not kept the step runs ${counted(plan.rerun_steps, "step")} again and compares them.`
    : "";
  const left = plan.left_behind.length ? ` Left behind: ${plan.left_behind.join(", ")}.` : "";
  const unseen = plan.unseen.length ? ` Not looked at: ${plan.unseen.join("; ")}.` : "";
  return {
    title: `${plan.pipeline}: back to step ${count(plan.to_step)}?`,
    text:
      `Steps ${count(plan.void_from)} to ${count(plan.void_to)} become void (${records.join(", ") || "they wrote no records"}), ` +
      `for good.${again}${left}${unseen} Then start it again with the code that is right.`,
    yes: "Go back",
  };
}
