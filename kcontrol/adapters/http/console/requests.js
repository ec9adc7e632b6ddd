/* What the reader asks of a pipeline. A request is a record in Kafka: it is followed until a coordinator has acted on it. */

import { Failure, get, post } from "./api.js";
import { announce } from "./announce.js";
import { change, state } from "./store.js";

const KEPT = 6;
let asked = 0;

/** By name: the operation's path, and what is said while it is pending and once it is done. */
export const ACTIONS = {
  pause: { path: "pause", label: "Pause" },
  start: { path: "start", label: "Resume" },
  resume: { path: "resume", label: "Resume" },
  checkpoint: { path: "checkpoints", label: "Checkpoint" },
  stop: { path: "stop", label: "Stop" },
  layout: { path: "layout", label: "Layout" },
  withdraw: { path: "layout/withdraw", label: "Withdraw" },
  reset: { path: "reset", label: "Go back" },
};

/** The server waits for signs of life, and may read a long log. */
const RESET_TIMEOUT_MS = 60_000;

/** Asks for it. What becomes of it is shown under the buttons; it does not throw. body: what the operation wants to be told. */
export async function request(name, action, body = null) {
  const made = begin(name, action);
  try {
    const accepted = await post(`v1/pipelines/${encodeURIComponent(name)}/${ACTIONS[action].path}`, body);
    settle(made, { state: "pending", id: accepted.request_id, offset: accepted.control_offset });
  } catch (failure) {
    settle(made, { state: "refused", failure });
  }
}

/** What a reset would make void, or null: then it is shown why it can't be made. */
export async function planReset(name, wanted) {
  const made = begin(name, "reset");
  try {
    const plan = await post(pathOfReset(name), { ...wanted, plan: true }, RESET_TIMEOUT_MS);
    dismiss(made);
    return plan;
  } catch (failure) {
    settle(made, { state: "refused", failure });
    return null;
  }
}

/** Makes it. Nobody has to act on it: it is done with the answer. It does not throw. */
export async function reset(name, wanted) {
  const made = begin(name, "reset");
  try {
    settle(made, { state: "done", reset: await post(pathOfReset(name), wanted, RESET_TIMEOUT_MS) });
  } catch (failure) {
    settle(made, { state: "refused", failure });
  }
}

const pathOfReset = (name) => `v1/pipelines/${encodeURIComponent(name)}/${ACTIONS.reset.path}`;

function begin(name, action) {
  const made = { key: (asked += 1), name, action, label: ACTIONS[action].label, askedMs: Date.now(), state: "sending" };
  change({ requests: [made, ...state.requests].slice(0, KEPT) });
  return made;
}

/** Whether something of this pipeline has not been acted on yet. */
export const isPending = (name, action) =>
  state.requests.some((each) => each.name === name && each.action === action && ["sending", "pending"].includes(each.state));

/** Asks what has become of those that are pending. Throws Failure only when no answer came at all. */
export async function followRequests() {
  for (const each of state.requests.filter((one) => one.state === "pending")) {
    try {
      const found = await get(`v1/pipelines/${encodeURIComponent(each.name)}/requests/${each.id}`);
      if (found.state !== "pending") settle(each, { state: found.state, step: found.step, error: found.error });
      else if (found.waits_for !== (each.waitsFor ?? "")) settle(each, { waitsFor: found.waits_for });
    } catch (failure) {
      if (!(failure instanceof Failure) || failure.status !== 404) throw failure;
      settle(each, { state: "unknown", failure });
    }
  }
}

/** Takes one off the list. */
export function dismiss(made) {
  change({ requests: state.requests.filter((each) => each.key !== made.key) });
}

/** What has become of it, in a few words. */
export function wordsOf(made) {
  switch (made.state) {
    case "sending":
      return "being sent";
    case "pending":
      if (made.waitsFor) return `under way: ${made.waitsFor}`;
      return `recorded at control offset ${made.offset}; no coordinator has acted on it yet`;
    case "done":
      if (made.reset) return `done: steps ${made.reset.void_from} to ${made.reset.void_to} are void since step ${made.reset.step}`;
      if (made.action === "layout") return `done after step ${made.step}`;
      return made.step ? `done: step ${made.step} is saved` : "done";
    case "failed":
      return `failed: ${made.error}`;
    case "superseded":
      return "superseded by a newer request";
    default:
      return [made.failure.message, made.failure.remedy].filter(Boolean).join(" ");
  }
}

function settle(made, what) {
  const settled = { ...made, ...what };
  change({ requests: state.requests.map((each) => (each.key === made.key ? settled : each)) });
  announce(`${settled.label} of ${settled.name}: ${wordsOf(settled)}`);
}
