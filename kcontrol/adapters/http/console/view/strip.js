/* The strip: a column for each step, its time by phase above, its records below, and its reason as a letter.

   It is one stop of the Tab key; arrow keys go from step to step, and Enter opens one. What a column stands for is said in
   words beneath, for the one that the keyboard or the pointer is on, or else for the newest. */

import { h } from "../dom.js";
import { count, short, span } from "../format.js";
import { REASONS, phasesOf, tookMs } from "../phases.js";
import { addressOf } from "../route.js";
import { change } from "../store.js";

const COLUMN_PX = 14;
const MOST_COLUMNS = 80;

let columns = 24;
/** The number of the step that is looked at; null for the newest. */
let at = null;

export function strip(name, steps) {
  const known = steps.map((step, index) => ({ step, phases: phasesOf(step, steps[index - 1] ?? null) }));
  const shown = known.slice(-columns);
  const current = shown.find((each) => each.step.step === at) ?? shown.at(-1);
  const most = {
    ms: Math.max(1, ...shown.map((each) => tookMs(each.phases))),
    records: Math.max(1, ...shown.map((each) => each.step.records_in)),
  };
  return h(
    "div",
    { class: "strip", key: "strip" },
    legend(most, shown),
    h(
      "div",
      {
        class: "columns-of-steps",
        role: "group",
        "aria-label": "Newest steps. Left and right go from step to step, Enter opens one.",
        onkeydown: (event) => move(event, shown, current),
        onfocusin: point,
        onmouseover: point,
        onmouseleave: leave,
        onfocusout: leave,
      },
      shown.map((each) => column(name, each, most, each === current)),
    ),
    h("p", { class: "readout" }, words(current)),
  );
}

const letterOf = (reason) => REASONS[reason]?.letter ?? "?";

function legend(most, shown) {
  const reasons = [...new Set(shown.map((each) => each.step.reason))].sort();
  return h(
    "p",
    { class: "legend" },
    h("span", { class: "key preparing" }, "preparing"),
    h("span", { class: "key working" }, `working, up to ${span(most.ms)}`),
    h("span", { class: "key records" }, `records in, up to ${short(most.records)}`),
    h("span", {}, `reason: ${reasons.map((reason) => `${letterOf(reason)} ${reason}`).join(", ")}`),
  );
}

function column(name, each, most, current) {
  const { step, phases } = each;
  const percent = (part, whole) => `${((100 * part) / whole).toFixed(2)}%`;
  return h(
    "a",
    {
      key: step.step,
      class: at === step.step ? "column at" : "column",
      href: addressOf(name, step.step),
      tabindex: current ? "0" : "-1",
      draggable: "false",
      "aria-label": words(each),
      "data-step": step.step,
    },
    h(
      "span",
      { class: "time" },
      h("span", { class: "preparing", style: { height: percent(phases.preparing, most.ms) } }),
      h("span", { class: "working", style: { height: percent(phases.working, most.ms) } }),
    ),
    h("span", { class: step.attempt > 1 ? "reason again" : "reason" }, letterOf(step.reason)),
    h("span", { class: "amount" }, h("span", { style: { height: percent(step.records_in, most.records) } })),
  );
}

function words({ step, phases }) {
  const waiting = phases.waiting === null ? "" : `waiting ${span(phases.waiting)}, `;
  const again = step.attempt > 1 ? `, attempt ${step.attempt}` : "";
  return (
    `Step ${count(step.step)}, ${step.reason}: ${count(step.records_in)} records in, ${count(step.records_out)} out${step.late_rows ? `, ${count(step.late_rows)} rows dropped as late` : ""}; ` +
    `${waiting}preparing ${span(phases.preparing)}, working ${span(phases.working)}${again}`
  );
}

function move(event, shown, current) {
  const place = shown.indexOf(current);
  const places = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: shown.length - 1 };
  if (!(event.key in places)) return;
  event.preventDefault();
  const next = shown[Math.max(0, Math.min(shown.length - 1, places[event.key]))];
  event.currentTarget.querySelector(`[data-step="${next.step.step}"]`).focus();
}

function point(event) {
  const found = event.target.closest("[data-step]");
  if (found && at !== Number(found.dataset.step)) {
    at = Number(found.dataset.step);
    change();
  }
}

function leave(event) {
  if (at !== null && !event.currentTarget.contains(event.relatedTarget)) {
    at = null;
    change();
  }
}

/** As many columns as there is room for. */
new ResizeObserver(([entry]) => {
  const fitting = Math.max(8, Math.min(MOST_COLUMNS, Math.floor((entry.contentRect.width - 34) / COLUMN_PX)));
  if (fitting !== columns) {
    columns = fitting;
    change();
  }
}).observe(document.getElementById("content"));
