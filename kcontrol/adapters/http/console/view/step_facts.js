/* Of one step: when, why, how long, and under which token. */

import { h } from "../dom.js";
import { count, counted, exact, span } from "../format.js";
import { PHASES, REASONS, phasesOf } from "../phases.js";

const sum = (slices) => slices.reduce((all, each) => all + each.records, 0);

/** voided: what has made it so, or null. */
export function stepFacts(step, before, voided) {
  const { token } = step;
  return [
    voided && h("p", { class: "note bad", key: "void" }, voidWords(voided)),
    h(
      "dl",
      { class: "facts-of-step", key: "facts" },
      fact("Reason", `${step.reason}: ${REASONS[step.reason]?.what ?? ""}`),
      fact("Records", `${count(sum(step.inputs))} in, ${count(sum(step.outputs))} out${skipped(step)}${late(step)}`),
      fact("Committed", exact(step.committed_ms)),
      fact("Step time", exact(step.now_ms), "what current_timestamp() was"),
      fact("Attempt", `${token.attempt} of claim epoch ${count(token.claim_epoch)}`),
      fact("Producer", `id ${token.producer_id}, epoch ${token.producer_epoch}`),
      fact("Nodes", `${step.nodes}; incarnations ${token.incarnations.map(count).join("; ")}`),
      fact("Fingerprint", h("code", {}, step.fingerprint)),
      step.watermark_moved && fact("Watermark", "moved: the next step is due for it"),
      step.paused_inputs.length > 0 && fact("Paused inputs", step.paused_inputs.join(", ")),
    ),
    times(phasesOf(step, before)),
  ];
}

function voidWords(voided) {
  const why = voided.why ? ` (${voided.why})` : "";
  return (
    `Void since step ${count(voided.step)}, a reset to step ${count(voided.to_step)}${why}, by ${voided.by}, ` +
    `${exact(voided.at_ms)}: what it wrote is still there, and counts no more.`
  );
}

function fact(name, value, more = "") {
  return h("div", { key: name }, h("dt", {}, name), h("dd", {}, value, more && h("span", { class: "sub" }, ` ${more}`)));
}

function skipped(step) {
  const left = step.skipped.filter((each) => each.records);
  return left.map((each) => `; ${counted(each.records, "record")} of ${each.input} left out as unreadable`).join("");
}

function late(step) {
  const dropped = (step.late_rows ?? []).filter((each) => each.rows);
  return dropped.map((each) => `; ${counted(each.rows, "late row")} dropped by the watermark of ${each.query}`).join("");
}

function times(phases) {
  const whole = Math.max(
    1,
    PHASES.reduce((sum, { name }) => sum + (phases[name] ?? 0), 0),
  );
  const known = PHASES.filter(({ name }) => phases[name] !== null);
  return h(
    "section",
    { key: "times", "aria-labelledby": "times-title" },
    h("h3", { id: "times-title" }, "Time by phase"),
    h(
      "div",
      { class: "bar", "aria-hidden": "true" },
      known.map(({ name }) =>
        h("span", { key: name, class: name, style: { width: `${((100 * phases[name]) / whole).toFixed(2)}%` } }),
      ),
    ),
    h(
      "dl",
      { class: "phases" },
      known.map(({ name, what }) =>
        h(
          "div",
          { key: name },
          h("dt", { class: `key ${name}` }, name),
          h("dd", {}, h("strong", {}, span(phases[name])), h("span", { class: "sub" }, ` ${what}`)),
        ),
      ),
    ),
  );
}
