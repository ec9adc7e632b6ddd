/* The last few steps as a table, newest first. */

import { h } from "../dom.js";
import { count, exact, span, time } from "../format.js";
import { phasesOf } from "../phases.js";
import { addressOf } from "../route.js";
import { table } from "./table.js";

const phase = (name) => (row) => (row.phases[name] === null ? "–" : span(row.phases[name]));

/** steps: oldest first, with one before the first row where there is one, for its time of waiting. */
export function recentSteps(name, steps, most) {
  const rows = steps.map((step, index) => ({ step, phases: phasesOf(step, steps[index - 1] ?? null) }));
  const columns = [
    { name: "Step", kind: "id", of: (row) => h("a", { href: addressOf(name, row.step.step) }, count(row.step.step)) },
    { name: "Committed", wideOnly: true, of: committed },
    { name: "Reason", of: (row) => row.step.reason },
    { name: "In", kind: "number", of: (row) => count(row.step.records_in) },
    { name: "Out", kind: "number", of: (row) => count(row.step.records_out) },
    { name: "Waiting", kind: "number", wideOnly: true, of: phase("waiting") },
    { name: "Preparing", kind: "number", wideOnly: true, of: phase("preparing") },
    { name: "Working", kind: "number", of: phase("working") },
    { name: "Attempt", kind: "number", wideOnly: true, of: (row) => row.step.attempt },
  ];
  const shown = rows.slice(-most).reverse();
  return table({ label: "Newest steps", columns, rows: shown, keyOf: (row) => row.step.step, cards: false });
}

function committed({ step }) {
  return h(
    "time",
    { datetime: new Date(step.committed_ms).toISOString(), title: exact(step.committed_ms) },
    time(step.committed_ms),
  );
}
