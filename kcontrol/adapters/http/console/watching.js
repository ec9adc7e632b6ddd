/* Looking at the server again and again: one look at a time, none while the tab is hidden, and more seldom while it fails. */

import { Failure, get } from "./api.js";
import { Feed } from "./feed.js";
import { followRequests } from "./requests.js";
import { HOSTS, REGIONS } from "./route.js";
import { change, state } from "./store.js";

const EVERY_MS = 2_000;
const FAILING_MS = [1_000, 2_000, 4_000, 8_000, 15_000];
const MOST_PIPELINES = 1_000;
const MOST_ENTRIES = 50;
const MOST_CUTS = 10;

let feed = null;
let failures = 0;
let timer = 0;
let looking = false;
let again = false;

/** The steps of the pipeline that is looked at. */
export const theFeed = () => feed;

/** Looks now, and from then on. Called while a look is under way, it looks once more after it. */
export async function look() {
  clearTimeout(timer);
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  again = false;
  await lookOnce();
  looking = false;
  if (again) look();
  else if (!document.hidden && state.connection !== "refused") timer = setTimeout(look, pauseMs());
}

function pauseMs() {
  return failures ? FAILING_MS[Math.min(failures, FAILING_MS.length) - 1] : EVERY_MS;
}

async function lookOnce() {
  try {
    const ready = await get("health/ready", {}, [503]);
    const metadata = state.metadata ?? (await get("v1/metadata").catch(notYet));
    const list = (await get("v1/pipelines", { limit: MOST_PIPELINES }).catch(notYet)) ?? state.list;
    const agents = await lookAtAgents();
    const regions = await lookAtRegions();
    await lookAtPipeline(state.name);
    await lookAtDeliveries(state.name);
    await followRequests();
    failures = 0;
    change({ ready, metadata, list, agents, regions, connection: "live", trouble: null, seenMs: Date.now() });
  } catch (failure) {
    failures += 1;
    if (!(failure instanceof Failure)) console.error(failure);
    change({ connection: failure.kind === "unauthorized" ? "refused" : "lost", trouble: failure });
  }
}

/** The server answers, but has not read the logs yet: /health/ready says what it waits for. */
function notYet(failure) {
  if (failure.kind === "not-yet") return null;
  throw failure;
}

/** Whether it says nothing about the pipeline that was asked for. */
function ofTheServer(failure) {
  const busy = failure.status === 503 && failure.kind !== "not-yet";
  return failure.status === 0 || failure.status === 504 || failure.kind === "unauthorized" || busy;
}

/** A server that can't read the agents' topics has everything else all the same. */
async function lookAtAgents() {
  try {
    const cluster = await get("v1/cluster");
    if (state.name !== HOSTS) return { cluster, agents: [], jobs: [], entries: [] };
    const [{ agents }, { jobs }, { entries }] = await Promise.all([
      get("v1/cluster/agents"),
      get("v1/cluster/jobs"),
      get("v1/cluster/log", { limit: MOST_ENTRIES }),
    ]);
    return { cluster, agents, jobs, entries };
  } catch (failure) {
    if (failure.kind === "not-yet") return state.agents;
    throw failure;
  }
}

/** The same of regions. Their cuts are asked for only while they are looked at. */
async function lookAtRegions() {
  try {
    const { regions } = await get("v1/regions");
    if (state.name !== REGIONS) return regions.map((one) => ({ ...one, cuts: [] }));
    const cutsOf = async (one) => {
      const { cuts } = await get(`v1/regions/${encodeURIComponent(one.region)}/cuts`, { limit: MOST_CUTS });
      return { ...one, cuts };
    };
    return await Promise.all(regions.map(cutsOf));
  } catch (failure) {
    if (failure.kind === "not-yet") return state.regions;
    throw failure;
  }
}

async function lookAtPipeline(name) {
  if (!name || name === HOSTS || name === REGIONS) return;
  const path = `v1/pipelines/${encodeURIComponent(name)}`;
  const current = feed?.name === name ? feed : new Feed(name);
  try {
    const [about, errors, checkpoints] = await Promise.all([
      get(path),
      get(`${path}/errors`),
      get(`${path}/checkpoints`),
      current.advance(),
    ]);
    // The reader may have gone elsewhere in the meantime.
    if (name !== state.name) return;
    feed = current;
    const inputs = state.pipeline?.partitionsWanted ? (await get(`${path}/inputs`)).inputs : null;
    change({
      failure: null,
      pipeline: {
        name,
        status: about.status,
        asOf: about.as_of,
        errors: errors.errors,
        checkpoints: checkpoints.checkpoints,
        checkpointFailure: checkpoints.failure,
        inputs,
        deliveries: state.pipeline?.name === name ? state.pipeline.deliveries : null,
        partitionsWanted: state.pipeline?.name === name && state.pipeline.partitionsWanted,
      },
    });
  } catch (failure) {
    if (!(failure instanceof Failure) || ofTheServer(failure)) throw failure;
    // A server that has just begun reads the logs again, and says so: what is known is worth more than nothing.
    if (failure.kind === "not-yet" && state.pipeline) return;
    if (name === state.name) change({ failure, pipeline: null });
  }
}

/** Kafka is asked for them, which may take a second or two: all else is shown meanwhile. */
async function lookAtDeliveries(name) {
  if (state.pipeline?.name !== name) return;
  try {
    const deliveries = await get(`v1/pipelines/${encodeURIComponent(name)}/deliveries`);
    if (state.pipeline?.name === name) change({ pipeline: { ...state.pipeline, deliveries } });
  } catch (failure) {
    if (!(failure instanceof Failure) || ofTheServer(failure)) throw failure;
  }
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : look()));
