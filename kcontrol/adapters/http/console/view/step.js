/* One step, opened: its division, what it wrote, its digests, its time, its token. */

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { addressOf, replaceRoute } from "../route.js";
import { change, state } from "../store.js";
import { count } from "../format.js";
import { closeFromOutside, setOpen } from "./modal.js";
import { stepFacts } from "./step_facts.js";
import { stepSlices } from "./step_slices.js";

const dialog = document.getElementById("step");
closeFromOutside(dialog, leave);
// It follows the address, and so is never open without one that says so.
dialog.oncancel = (event) => {
  event.preventDefault();
  leave();
};
// A browser may close it all the same.
dialog.onclose = () => state.step !== null && !dialog.open && leave();

/** What is shown: the pipeline, the number, and the answer or the failure once there is one. */
let shown = null;

function leave() {
  change({ step: null });
  location.hash = addressOf(state.name);
}

/** Brings the dialog in line with the address. */
export function showStep() {
  if (state.step === null) {
    shown = null;
    setOpen(dialog, false);
    return;
  }
  if (shown?.name !== state.name || shown.number !== state.step) {
    shown = { name: state.name, number: state.step };
    fetchInto(shown);
  }
  render(dialog, ...content());
  setOpen(dialog, true);
}

async function fetchInto(wanted) {
  const path = `v1/pipelines/${encodeURIComponent(wanted.name)}/steps`;
  const before = wanted.number - 1;
  try {
    const { step, void_since: voided } = await get(`${path}/${wanted.number}`);
    // The one before says since when this one was waited for; it may have been dropped from the log.
    const lines = before ? (await get(`${path}/brief`, { from: before, to: before, limit: 1 })).steps : [];
    wanted.found = { step, voided, before: lines.find((each) => each.step === before) ?? null };
  } catch (failure) {
    wanted.failure = failure;
  }
  change();
}

function content() {
  const last = state.pipeline?.status.step ?? state.step;
  const first = state.pipeline?.status.first_step ?? 1;
  return [
    h(
      "div",
      { class: "heading", key: "heading" },
      h("h2", { id: "step-title" }, `Step ${count(state.step)}`, h("span", { class: "sub" }, ` of ${state.name}`)),
      neighbour("Previous step", "←", state.step - 1, state.step > Math.max(1, first)),
      neighbour("Next step", "→", state.step + 1, state.step < last),
      h("button", { type: "button", autofocus: true, onclick: leave }, "Close"),
    ),
    h("div", { class: "body", key: "body", tabindex: "0", role: "region", "aria-label": "Facts of the step" }, body()),
  ];
}

function body() {
  const failure = shown?.failure;
  if (failure) return h("p", { class: "note bad" }, `${failure.message} ${failure.remedy}`);
  if (!shown?.found) return h("p", { class: "empty" }, "Looking…");
  const { step, before, voided } = shown.found;
  return [stepFacts(step, before, voided), stepSlices(step)];
}

function neighbour(label, arrow, number, there) {
  const go = there ? () => replaceRoute(state.name, number) : null;
  return h(
    "button",
    { type: "button", class: "quiet", "aria-label": label, title: label, "aria-disabled": there ? null : "true", onclick: go },
    arrow,
  );
}
