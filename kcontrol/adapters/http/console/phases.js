/* Where a step's time went, worked out from the times in its boundary and the one before it; nothing is measured here. */

/** In order. Names are used as class names. */
export const PHASES = [
  { name: "waiting", what: "from the commit before until a step was due" },
  { name: "preparing", what: "until its transaction was open, earlier attempts included" },
  { name: "working", what: "nodes read, compute and write, until the commit was asked for" },
];

/** By reason: the letter that stands for it in the strip, and what it means. */
export const REASONS = {
  records: { letter: "r", what: "enough records had arrived" },
  delay: { letter: "d", what: "records had waited long enough" },
  clock: { letter: "c", what: "the clock ticked" },
  replay: { letter: "p", what: "a node was replaying" },
  watermark: { letter: "w", what: "a watermark had moved" },
  skip: { letter: "s", what: "somebody had offsets passed over" },
};

/** Milliseconds by phase; `waiting` is null when the boundary before is not known. Clocks may differ: never below 0. */
export function phasesOf(step, before) {
  return {
    waiting: before ? Math.max(0, step.now_ms - before.committed_ms) : null,
    preparing: Math.max(0, step.opened_ms - step.now_ms),
    working: Math.max(0, step.committed_ms - step.opened_ms),
  };
}

/** What a step took once it was due. */
export const tookMs = (phases) => phases.preparing + phases.working;
