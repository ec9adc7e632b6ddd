/* Deliveries: how far outputs are in targets outside of Kafka, who brings them there, and why one has halted. */

import { serverNow } from "../api.js";
import { h } from "../dom.js";
import { ago, count, exact, span } from "../format.js";
import { badge } from "./badge.js";
import { table } from "./table.js";

/** Kafka is asked every five seconds; what is older than a few times that is worth words. */
const FRESH_MS = 15_000;

const COLUMNS = [
  { name: "Output", kind: "id", of: (each) => each.output },
  { name: "To", kind: "long", of: target },
  { name: "State", of: state },
  { name: "Since", of: since },
  { name: "Step", kind: "number", of: (each) => (each.step < 0 ? "not known" : count(each.step)) },
  { name: "Behind", kind: "number", of: behind },
  { name: "Delivered by", kind: "long", of: who },
];

/** Nothing where there are none and that is known. */
export function deliveries({ deliveries: known }) {
  if (!known || (!known.deliveries.length && !known.unknown)) return null;
  const halted = known.deliveries.filter((each) => each.reason);
  return h(
    "section",
    { class: "panel", key: "deliveries", "aria-labelledby": "deliveries-title" },
    h("h2", { id: "deliveries-title" }, "Deliveries"),
    known.unknown && h("p", { class: "note late", key: "!unknown" }, `Not all is known: ${known.unknown}`),
    known.age_ms > FRESH_MS && h("p", { class: "note late", key: "!old" }, `What follows is ${span(known.age_ms)} old.`),
    known.deliveries.length > 0 &&
      table({ label: "Deliveries", columns: COLUMNS, rows: known.deliveries, keyOf: keyOf }),
    halted.map((each) => h("p", { class: "note bad", key: keyOf(each) }, `${each.output} to ${each.target}: ${each.reason}`)),
    h("p", { class: "asof", key: "asof" }, `As of step ${count(known.step)}.`),
  );
}

const keyOf = (each) => `${each.output} ${each.kind} ${each.target}`;

function target(each) {
  const at = each.address && h("span", { class: "sub" }, ` at ${each.address}`);
  return [`${each.kind} ${each.target}`, at, `, ${words(each.guarantee)}`];
}

/** Of one that says nothing any more it is not known whether it is still as it said. */
function state(each) {
  if (!each.silent) return badge(each.state, words(each.state));
  return [badge("silent"), h("span", { class: "late" }, ` for ${span(each.silent_ms)}, was ${words(each.state)}`)];
}

function since(each) {
  if (each.since_ms === null) return "–";
  const at = { title: exact(each.since_ms), datetime: new Date(each.since_ms).toISOString() };
  return h("time", at, ago(each.since_ms, serverNow()));
}

function behind(each) {
  if (each.behind === null) return "not known";
  if (!each.behind) return "0";
  return each.lag_s >= 1 ? `${count(each.behind)}, by ${span(each.lag_s * 1_000)}` : count(each.behind);
}

function who(each) {
  const waiting = each.standing_by.length > 0 && h("span", { class: "sub" }, ` standing by: ${each.standing_by.join(", ")}`);
  return [each.by ?? "–", waiting];
}

const words = (name) => name.replaceAll("_", " ");
