/* What waits, by input; by partition on request. */

import { h } from "../dom.js";
import { count, span } from "../format.js";
import { change, state } from "../store.js";
import { look } from "../watching.js";
import { badge } from "./badge.js";
import { table } from "./table.js";

const OF_INPUTS = [
  {
    name: "Input",
    of: (each) => [
      each.input,
      each.kind !== "topic" && h("span", { class: "sub" }, ` ${each.kind}`),
      each.paused && [" ", badge("paused"), each.noted ? "" : " (not yet noted)"],
    ],
  },
  { name: "Waiting", kind: "number", of: (each) => count(each.waiting) },
  { name: "For", kind: "number", of: (each) => (each.waiting && each.waiting_ms !== null ? span(each.waiting_ms) : "–") },
];
const OF_PARTITIONS = [
  { name: "Partition", kind: "id", of: (each) => each.partition },
  { name: "Committed to", kind: "number", of: (each) => count(each.committed) },
  { name: "Received to", kind: "number", of: (each) => (each.received === null ? "–" : count(each.received)) },
  { name: "Reaches to", kind: "number", of: (each) => (each.end === null ? "–" : count(each.end)) },
  { name: "Waiting", kind: "number", of: (each) => count(each.waiting) },
];

export function inputs({ status, inputs: known, partitionsWanted }) {
  return h(
    "section",
    { class: "panel", key: "inputs", "aria-labelledby": "inputs-title" },
    h("h2", { id: "inputs-title" }, "Inputs"),
    table({ label: "Inputs", columns: OF_INPUTS, rows: status.inputs, keyOf: (each) => each.input, cards: false }),
    status.inputs.filter((each) => each.unasked).map(unasked),
    status.inputs.flatMap((each) => each.skips.map((skip) => waitingSkip(each.input, skip))),
    h(
      "details",
      { ontoggle: toggled },
      h("summary", {}, "By partition"),
      partitionsWanted && !known && h("p", { class: "empty" }, "Looking…"),
      (known ?? []).map((each) =>
        h(
          "div",
          { key: each.input },
          h("h3", {}, each.input, h("span", { class: "sub" }, ` topic ${each.topic}`)),
          table({
            label: `Partitions of ${each.input}`,
            columns: OF_PARTITIONS,
            rows: each.partitions,
            keyOf: (part) => part.partition,
            cards: false,
          }),
        ),
      ),
    ),
  );
}

function waitingSkip(input, skip) {
  const range = `offsets ${count(skip.from)} to ${count(skip.to - 1)} of ${input}, partition ${skip.partition}`;
  const why = skip.waits_for ? ` It waits: ${skip.waits_for}.` : "";
  return h("p", { class: "note", key: `${input}-${skip.partition}` }, `${skip.by} asked to pass over ${range}.${why}`);
}

function unasked(each) {
  const why = `Kafka does not say how far ${each.input} reaches, so what its nodes have said counts: ${each.unasked}`;
  return h("p", { class: "note", key: `!${each.input}` }, why);
}

function toggled(event) {
  const wanted = event.target.open;
  if (!state.pipeline || Boolean(state.pipeline.partitionsWanted) === wanted) return;
  change({ pipeline: { ...state.pipeline, partitionsWanted: wanted } });
  if (wanted) look();
}
