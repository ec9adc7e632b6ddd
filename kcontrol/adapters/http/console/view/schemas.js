/* Which schemas of a registry the log holds. Nothing for a pipeline without any. */

import { h } from "../dom.js";

export function schemas(status) {
  if (!status.schemas.length) return null;
  const said = (each) =>
    each.output
      ? `id ${each.id} for output ${each.output}, under ${each.subject}`
      : `id ${each.id} in values of inputs, known from step ${each.known_from} on`;
  return h(
    "section",
    { class: "panel", key: "schemas", "aria-labelledby": "schemas-title" },
    h("h2", { id: "schemas-title" }, "Schemas of the registry"),
    h("ul", {}, status.schemas.map((each) => h("li", { key: `${each.output}/${each.id}` }, said(each)))),
  );
}
