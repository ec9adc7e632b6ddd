/* What may go wrong one day, though nothing is wrong now: inputs that expire, topics that are not safe. */

import { h } from "../dom.js";

export function remarks(status) {
  const sentences = [...status.warnings, ...status.unsafe.map((each) => `Not safe: ${each}`)];
  if (!sentences.length) return null;
  return h(
    "section",
    { class: "panel remarks", key: "remarks", "aria-labelledby": "remarks-title" },
    h("h2", { id: "remarks-title" }, "Worth attention"),
    h("ul", {}, sentences.map((each) => h("li", { key: each }, each))),
  );
}
