/* A table. Where there is little room its rows become cards; roles are given by name, because browsers forget them then. */

import { h } from "../dom.js";

/** columns: { name, kind: "number", "id", "code", "long" or "text", of(row), wideOnly }. `keyOf(row)` tells rows apart. */
export function table({ label, columns, rows, keyOf, cards = true }) {
  return h(
    "table",
    { role: "table", "aria-label": label, class: cards ? "cards" : null },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(head))),
    h(
      "tbody",
      { role: "rowgroup" },
      rows.map((row, index) =>
        h(
          "tr",
          { role: "row", key: keyOf ? keyOf(row) : index },
          columns.map((column) => cell(column, row)),
        ),
      ),
    ),
  );
}

function head(column) {
  return h("th", { role: "columnheader", scope: "col", class: classOf(column) }, column.name);
}

function cell(column, row) {
  return h("td", { role: "cell", class: classOf(column), "data-label": column.name }, column.of(row));
}

function classOf(column) {
  return [column.kind ?? "text", column.wideOnly && "wide-only"].filter(Boolean).join(" ");
}
