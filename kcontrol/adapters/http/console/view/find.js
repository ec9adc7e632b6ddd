/* Finds a step: by its number, by an offset that it read, or by one that it wrote. */

import { get } from "../api.js";
import { h } from "../dom.js";
import { addressOf } from "../route.js";
import { change } from "../store.js";

const WAYS = [
  { way: "number", label: "by its number" },
  { way: "read", label: "that read an offset" },
  { way: "wrote", label: "that wrote an offset" },
];

let way = "number";
let failure = null;
/** Of the outputs, from the definition. */
let topics = [];

export function find(status) {
  const names = way === "read" ? status.inputs.map((each) => each.input) : topics;
  return h(
    "details",
    { key: "find", class: "find", ontoggle: (event) => event.target.open && learnTopics(status.pipeline) },
    h("summary", {}, "Find a step"),
    h(
      "form",
      { onsubmit: (event) => submit(event, status.pipeline) },
      field(
        "Which",
        h(
          "select",
          { name: "way", onchange: choose },
          WAYS.map((each) => option(each.way, each.label, each.way === way)),
        ),
      ),
      way === "number" && field("Step", whole("step", 1)),
      way !== "number" &&
        field(
          way === "read" ? "Input" : "Topic",
          h(
            "select",
            { name: "name" },
            names.map((name) => option(name, name)),
          ),
        ),
      way !== "number" && field("Partition", whole("partition", 0)),
      way !== "number" && field("Offset", whole("offset", 0)),
      h("button", { key: "find", type: "submit" }, "Open"),
    ),
    h("p", { class: "note bad", role: "status" }, failure ? failure.message : ""),
  );
}

const option = (value, label, selected = false) => h("option", { key: value, value, selected }, label);
const field = (label, control) => h("label", { key: label }, h("span", {}, label), control);
const whole = (name, min) => h("input", { name, type: "number", min, step: 1, required: true });

function choose(event) {
  way = event.target.value;
  failure = null;
  change();
}

async function learnTopics(name) {
  try {
    const { spec } = await get(`v1/pipelines/${encodeURIComponent(name)}/spec`);
    topics = [...new Set(spec.outputs.map((each) => each.topic))];
    failure = null;
  } catch (error) {
    failure = error;
  }
  change();
}

async function submit(event, name) {
  event.preventDefault();
  const { step, name: chosen, partition, offset } = event.target.elements;
  failure = null;
  try {
    location.hash = addressOf(
      name,
      way === "number" ? Number(step.value) : await numberOf(name, chosen.value, partition.value, offset.value),
    );
  } catch (error) {
    failure = error;
  }
  change();
}

async function numberOf(name, chosen, partition, offset) {
  const path = `v1/pipelines/${encodeURIComponent(name)}/steps`;
  const place = { partition, offset };
  const answer =
    way === "read"
      ? await get(`${path}/by-input`, { input: chosen, ...place })
      : await get(`${path}/by-output`, { topic: chosen, ...place });
  return answer.step.step;
}
