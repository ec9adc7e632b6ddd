/* The checkpoints that are kept, newest first, and why the last try failed if it did. */

import { serverNow } from "../api.js";
import { h } from "../dom.js";
import { ago, bytes, count, exact, span } from "../format.js";
import { table } from "./table.js";

const total = (checkpoint, field) => checkpoint.parts.reduce((sum, part) => sum + part[field], 0);

const COLUMNS = [
  { name: "Step", kind: "id", of: (each) => count(each.step) },
  {
    name: "Saved",
    of: (each) =>
      h("time", { title: exact(each.now_ms), datetime: new Date(each.now_ms).toISOString() }, ago(each.now_ms, serverNow())),
  },
  { name: "Took", kind: "number", of: (each) => span(each.now_ms - each.begun_ms) },
  { name: "Size", kind: "number", of: (each) => bytes(total(each, "size_bytes")) },
  { name: "Files", wideOnly: true, kind: "number", of: (each) => count(total(each, "files")) },
  { name: "Nodes", kind: "number", of: (each) => each.parts.length },
  { name: "Made", of: (each) => (each.request_id ? "on request" : "by the clock") },
];

export function checkpoints({ checkpoints: made, checkpointFailure }) {
  const newestFirst = [...made].reverse();
  return h(
    "section",
    { class: "panel", key: "checkpoints", "aria-labelledby": "checkpoints-title" },
    h("h2", { id: "checkpoints-title" }, "Checkpoints"),
    made.length > 0 &&
      h("p", { class: "sub" }, "at ", h("code", {}, [...new Set(newestFirst.map((each) => each.location))].join(", "))),
    checkpointFailure && h("p", { class: "note bad" }, "The last try failed; its cause is among the failures."),
    made.length
      ? table({ label: "Checkpoints", columns: COLUMNS, rows: newestFirst, keyOf: (each) => each.step })
      : h("p", { class: "empty" }, "No checkpoint yet."),
  );
}
