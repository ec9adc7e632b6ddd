/* One pipeline: how it is, what can be asked of it, and everything about its steps, nodes, inputs, deliveries and checkpoints. */

import { h } from "../dom.js";
import { count, span } from "../format.js";
import { state } from "../store.js";
import { actions, requests } from "./actions.js";
import { badge } from "./badge.js";
import { checkpoints } from "./checkpoints.js";
import { deliveries } from "./deliveries.js";
import { failures } from "./failures.js";
import { inputs } from "./inputs.js";
import { layout } from "./layout.js";
import { nodes } from "./nodes.js";
import { question } from "./question.js";
import { remarks } from "./remarks.js";
import { goBack } from "./reset.js";
import { schemas } from "./schemas.js";
import { steps } from "./steps.js";
import { summary } from "./summary.js";

export function pipeline() {
  if (state.failure) return [h("h1", {}, state.name), unanswered(state.failure)];
  if (!state.name || !state.pipeline) return [h("p", { class: "empty" }, waitsFor())];
  const { status, asOf } = state.pipeline;
  return [
    h(
      "div",
      { class: "title", key: "title" },
      h("h1", {}, status.pipeline),
      badge(status.phase),
      wanted(status),
      h("span", { class: "spacer" }),
      actions(status),
    ),
    requests(status),
    h("p", { class: "about", key: "about" }, about(status)),
    failures(state.pipeline),
    summary(state.pipeline),
    steps(status),
    h("div", { class: "pair", key: "pair" }, inputs(state.pipeline), nodes(status)),
    deliveries(state.pipeline),
    layout(status),
    goBack(status),
    checkpoints(state.pipeline),
    schemas(status),
    question(status),
    remarks(status),
    h("p", { class: "asof", key: "asof" }, asOfWords(asOf)),
  ];
}

function wanted(status) {
  const same = status.desired === status.phase || status.phase === "starting";
  return !same && h("span", { class: "wanted" }, `wanted: ${status.desired}`);
}

function asOfWords({ control_partition: partition, control_offset: control, steps_offset: steps }) {
  return `As of offset ${count(control)} of control partition ${partition} and offset ${count(steps)} of the log of steps.`;
}

function about(status) {
  const heard = status.has_coordinator ? "" : `, not heard for ${span(status.coordinator_silent_ms)}`;
  const who = status.coordinator
    ? `Coordinator ${status.coordinator}, epoch ${count(status.claim_epoch)}${heard}.`
    : "No coordinator yet.";
  return state.pipeline.errors.length ? who : `${who} No failures.`;
}

function waitsFor() {
  if (state.connection === "refused" || (state.connection === "lost" && !state.seenMs)) return "";
  return state.name || !state.list ? "Looking…" : "";
}

function unanswered(failure) {
  return h("div", { class: "banner bad" }, h("p", {}, h("strong", {}, failure.message), ` ${failure.remedy}`));
}
