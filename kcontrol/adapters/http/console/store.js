/* What the page knows, in one place. Whoever changes it says so, and the page is described anew, once for all that changes. */

export const state = {
  /** What the server says of itself; null before its first answer. */
  metadata: null,
  /** The answer of /health/ready. */
  ready: null,
  /** The answer of /v1/pipelines. */
  list: null,
  /** The answers of /v1/cluster and below, if there are agents; null before. */
  agents: null,
  /** The regions of /v1/regions, each with its newest cuts while they are looked at; null before. */
  regions: null,
  /** What the reader has typed to find a pipeline. */
  filter: "",

  /** The pipeline that is looked at ('' for none), and the step that is open (null for none). */
  name: "",
  step: null,
  /** Of that pipeline: the answers about it, or why there are none. */
  pipeline: null,
  failure: null,

  /** looking, live, lost, refused (a token is wanted). */
  connection: "looking",
  /** Why it is not live. */
  trouble: null,
  /** When the last whole look succeeded, by this machine's clock. */
  seenMs: 0,

  /** What was asked for in this tab, newest first. */
  requests: [],
};

const listeners = [];
let planned = false;

/** Calls `listener()` after each change. */
export function onChange(listener) {
  listeners.push(listener);
}

/** Takes over what has changed. */
export function change(what = {}) {
  Object.assign(state, what);
  if (planned) return;
  planned = true;
  queueMicrotask(() => {
    planned = false;
    for (const listener of listeners) listener();
  });
}
