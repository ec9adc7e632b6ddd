/* Begins: reads the address, looks at the server, and describes the page after each change. */

import { render } from "./dom.js";
import { HOSTS, REGIONS, readRoute, replaceRoute } from "./route.js";
import { change, onChange, state } from "./store.js";
import { look } from "./watching.js";
import { agents } from "./view/agents.js";
import { connection } from "./view/connection.js";
import { pipeline } from "./view/pipeline.js";
import { pipelines } from "./view/pipelines.js";
import { regions } from "./view/regions.js";
import { showStep } from "./view/step.js";
import { askForToken } from "./view/token.js";
import { top } from "./view/top.js";

const AGES_MS = 1_000;
/** By name, the pages that are about no pipeline. */
const PAGES = new Map([
  [HOSTS, ["Hosts", agents]],
  [REGIONS, ["Regions", regions]],
]);
const part = (id) => document.getElementById(id);

function describe() {
  if (!state.name && state.list?.pipelines.length) {
    replaceRoute(state.list.pipelines[0].pipeline);
    return;
  }
  // First, so that when it closes, the place that gets the focus back is still there.
  showStep();
  const [shown, content] = PAGES.get(state.name) ?? [state.name, pipeline];
  document.title = shown ? `${shown} · kcontrol` : "kcontrol";
  render(part("top"), ...top());
  render(part("connection"), ...connection());
  render(part("pipelines"), ...pipelines());
  render(part("content"), ...content());
  askForToken();
}

function follow() {
  const { name, step } = readRoute();
  const moved = name !== state.name;
  change(moved ? { name, step, pipeline: null, failure: null } : { step });
  if (moved) look();
}

part("skip").onclick = (event) => {
  // The address after # is the pipeline's; it must stay.
  event.preventDefault();
  part("content").focus();
};
addEventListener("hashchange", follow);
onChange(describe);
setInterval(() => document.hidden || change(), AGES_MS);
Object.assign(state, readRoute());
describe();
look();
