/* Asks about the pipeline's state and outputs in SQL, and shows the rows, as of the step that the answer names. */

import { post } from "../api.js";
import { h } from "../dom.js";
import { count, counted, exact } from "../format.js";
import { change } from "../store.js";
import { table } from "./table.js";

const TIMEOUT_MS = 35_000;
const ROWS = 200;

/** What was asked last: of which pipeline, whether it is being answered, and the answer or the failure. */
let asked = { name: "", waiting: false, answer: null, failure: null };

export function question(status) {
  const own = asked.name === status.pipeline ? asked : {};
  return h(
    "details",
    { key: "question", class: "find question" },
    h("summary", {}, "Ask in SQL"),
    h(
      "form",
      { onsubmit: (event) => submit(event, status.pipeline) },
      h(
        "label",
        { key: "sql", class: "sql" },
        h("span", {}, "Statement"),
        h("textarea", { name: "sql", rows: 3, required: true, spellcheck: "false", placeholder: "SHOW TABLES" }),
      ),
      h(
        "label",
        { key: "step" },
        h("span", {}, "As of step"),
        h("input", { name: "step", type: "number", min: 1, step: 1, placeholder: "newest" }),
      ),
      h("button", { key: "ask", type: "submit", "aria-disabled": own.waiting ? "true" : null }, "Ask"),
    ),
    h("p", { key: "said", class: own.failure ? "note bad" : "note", role: "status" }, said(own)),
    own.answer && h("div", { key: "rows", class: "scroll" }, rows(own.answer)),
  );
}

function said({ waiting, failure, answer }) {
  if (waiting) return "Asking…";
  if (failure) return `${failure.message} ${failure.remedy}`;
  if (!answer) return "";
  const left = answer.more ? "; there are more" : "";
  const found = `${counted(answer.rows.length, "row")}, as of step ${count(answer.step)} (${exact(answer.step_ms)})${left}.`;
  return [found, ...answer.notes].join(" ");
}

function rows(answer) {
  return table({
    label: "Answer",
    columns: answer.columns.map(({ name, type }, place) => ({
      name,
      kind: /^(tinyint|smallint|int|bigint|float|double|decimal)/.test(type) ? "number" : "text",
      of: (row) => shown(row[place]),
    })),
    rows: answer.rows,
    cards: false,
  });
}

const shown = (value) => (value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));

async function submit(event, name) {
  event.preventDefault();
  if (asked.waiting) return;
  const { sql, step } = event.target.elements;
  const wanted = { sql: sql.value, step: step.value ? Number(step.value) : null, limit: ROWS };
  const mine = { name, waiting: true, answer: null, failure: null };
  asked = mine;
  change();
  try {
    mine.answer = await post(`v1/pipelines/${encodeURIComponent(name)}/query`, wanted, TIMEOUT_MS);
  } catch (error) {
    mine.failure = error;
  }
  mine.waiting = false;
  change();
}
