/* The newest steps of one pipeline in brief, oldest first: one page, then only what is new, and never more than KEPT. */

import { get } from "./api.js";
import { phasesOf, tookMs } from "./phases.js";

const FIRST_PAGE = 80;
const NEXT_PAGE = 200;
const KEPT = 240;

export class Feed {
  constructor(name) {
    this.name = name;
    this.path = `v1/pipelines/${encodeURIComponent(name)}/steps/brief`;
    this.steps = [];
  }

  /** Takes in what was committed since the last call. */
  async advance() {
    const last = this.steps.at(-1)?.step;
    let page = await get(this.path, last === undefined ? { limit: FIRST_PAGE } : { from: last + 1, limit: NEXT_PAGE });
    const missed = page.next_from !== null || (last !== undefined && page.last < last);
    if (missed) {
      this.steps = [];
      page = await get(this.path, { limit: FIRST_PAGE });
    }
    this.steps = [...this.steps, ...page.steps].slice(-KEPT);
  }
}

/** Figures of some steps in a row, or null for fewer than two. Rates are per second of the time that they span. */
export function figuresOf(steps) {
  if (steps.length < 2) return null;
  const times = steps.map((step) => tookMs(phasesOf(step, null))).sort((a, b) => a - b);
  const seconds = Math.max(1, steps.at(-1).committed_ms - steps[0].committed_ms) / 1_000;
  const later = steps.slice(1);
  return {
    steps: steps.length,
    stepRate: later.length / seconds,
    recordRate: later.reduce((sum, each) => sum + each.records_in, 0) / seconds,
    medianMs: times[Math.floor(times.length / 2)],
    slowestMs: times.at(-1),
  };
}
