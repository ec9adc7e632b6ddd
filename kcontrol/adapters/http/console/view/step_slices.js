/* Of one step: what it read (its division) and what it wrote, with offsets and digests, and how it was cut into tasks. */

import { h } from "../dom.js";
import { count, exact } from "../format.js";
import { table } from "./table.js";

const SLICE = [
  { name: "Partition", kind: "id", of: (each) => each.partition },
  { name: "From", kind: "number", of: (each) => count(each.from) },
  { name: "To", kind: "number", of: (each) => count(each.to) },
  { name: "Records", kind: "number", of: (each) => count(each.records) },
  { name: "Digest", kind: "code", of: (each) => each.digest },
];
const SPLIT = [
  { name: "Task", kind: "id", of: (each) => each.task },
  { name: "Input", of: (each) => each.input },
  { name: "Partition", kind: "number", of: (each) => each.partition },
  { name: "From", kind: "number", of: (each) => count(each.from) },
  { name: "To", kind: "number", of: (each) => count(each.to) },
];

const SKIP = [
  { name: "Partition", kind: "id", of: (each) => each.partition },
  { name: "Input", of: (each) => each.input },
  { name: "From", kind: "number", of: (each) => count(each.from) },
  { name: "To", kind: "number", of: (each) => count(each.to) },
  { name: "By", of: (each) => each.by },
  { name: "Asked", of: (each) => exact(each.asked_ms) },
];

export function stepSlices(step) {
  return [
    part("division", "Division: what it read", slices(step.inputs, "input", "Input"), "It has no input."),
    step.skipped_ranges.length > 0 && part("skips", "Passed over, because somebody asked", [skips(step.skipped_ranges)], ""),
    part("output", "Output: what it wrote", slices(step.outputs, "output", "Output"), "It has written nothing."),
    part("layout", "Layout: how it was cut into tasks", layout(step.layout), ""),
  ];
}

function part(key, title, content, otherwise) {
  const id = `${key}-title`;
  const inside = content.length ? content : h("p", { class: "empty" }, otherwise);
  return h("section", { key, "aria-labelledby": id }, h("h3", { id }, title), inside);
}

function slices(all, field, word) {
  const names = [...new Set(all.map((each) => each[field]))];
  return names.map((name) => {
    const rows = all.filter((each) => each[field] === name);
    const label = `${word} ${name}`;
    return h(
      "div",
      { key: name },
      h("h4", {}, label, h("span", { class: "sub" }, ` topic ${rows[0].topic}`)),
      table({ label, columns: SLICE, rows, keyOf: (each) => each.partition }),
    );
  });
}

const skips = (ranges) => h("div", { key: "ranges" }, table({ label: "Passed over", columns: SKIP, rows: ranges }));

function layout(cut) {
  const written = cut.outputs.map(
    (each) => `${each.output}: ${each.partitions} partitions by ${each.tasks} tasks, digest ${each.digest}`,
  );
  return [
    h("p", { key: "words" }, [`Shuffle partitions: ${cut.shuffle_partitions}`, ...written].join("; "), "."),
    cut.splits.length > 0 &&
      h("div", { key: "splits" }, table({ label: "Splits", columns: SPLIT, rows: cut.splits, cards: false })),
  ];
}
