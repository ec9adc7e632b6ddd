/* What is wrong now, the root of a halt first, each with its cause. */

import { h } from "../dom.js";

export function failures({ errors }) {
  if (!errors.length) return null;
  return h(
    "section",
    { class: "failures", key: "failures", "aria-labelledby": "failures-title" },
    h("h2", { id: "failures-title" }, errors.some((each) => each.root) ? "Why it has halted" : "Failures"),
    h("ul", {}, errors.map(failure)),
  );
}

function failure(each, index) {
  return h(
    "li",
    { key: index, class: each.root || each.kind === "failed" ? "root" : null },
    h(
      "p",
      { class: "where" },
      h("strong", {}, each.where),
      each.kind === each.where ? "" : ` ${each.kind}`,
      each.root && h("span", { class: "tag" }, "root cause"),
    ),
    h("p", { class: "what" }, each.what),
  );
}
