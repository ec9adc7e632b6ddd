/* All pipelines: state, lag, and how long ago the last step was. */

import { serverNow } from "../api.js";
import { h } from "../dom.js";
import { ago, count, counted, rough, short } from "../format.js";
import { HOSTS, REGIONS, addressOf } from "../route.js";
import { change, state } from "../store.js";
import { badge } from "./badge.js";

const FILTER_FROM = 9;

export function pipelines() {
  return [...listed(), regions(), hosts()];
}

/** Of a region that does not go round. */
const RESTING = ["spent", "unhealthy", "going_back", null];

/** A link to the regions, where there are any. */
function regions() {
  const known = state.regions;
  if (!known || (!known.length && state.name !== REGIONS)) return null;
  const resting = known.filter((one) => RESTING.includes(one.state)).length;
  return other("regions", REGIONS, "Regions", `${counted(known.length, "region")}${resting ? `, ${resting} not at work` : ""}`);
}

/** A link to the agents, where there are any. */
function hosts() {
  const cluster = state.agents?.cluster;
  if (!cluster || (!cluster.members && state.name !== HOSTS)) return null;
  return other("hosts", HOSTS, "Hosts", `${counted(cluster.members, "agent")}, ${count(cluster.used)} of ${count(cluster.slots)} slots taken`);
}

/** A link to a page that is about no pipeline. */
function other(key, address, name, facts) {
  return h(
    "ul",
    { role: "list", key },
    h(
      "li",
      {},
      h(
        "a",
        { href: addressOf(address), "aria-current": state.name === address ? "page" : null },
        h("span", { class: "name" }, name),
        h("span", { class: "facts all" }, facts),
      ),
    ),
  );
}

function listed() {
  if (!state.list) return [h("p", { class: "empty" }, state.connection === "looking" ? "Looking…" : "Not known yet.")];
  const { pipelines: lines, broken, next_after: more } = state.list;
  const names = Object.keys(broken);
  const total = lines.length + names.length;
  if (!total) return [h("h2", {}, "Pipelines"), nothing()];
  const wanted = (name) => name.includes(state.filter.trim().toLowerCase());
  return [
    h("h2", {}, "Pipelines"),
    h("p", { class: "sum" }, [counted(total, "pipeline"), ...tally(lines, names)].join(" · ")),
    total >= FILTER_FROM && filter(),
    h("ul", { role: "list" }, [
      ...lines.filter((line) => wanted(line.pipeline)).map(item),
      ...names.filter(wanted).map((name) => lost(name, broken[name])),
    ]),
    more && h("p", { class: "hint" }, `Only the first ${count(total)} are shown.`),
  ];
}

function tally(lines, broken) {
  const halted = lines.filter((line) => line.phase === "halted").length;
  const unknown = lines.filter((line) => line.phase === "unknown").length;
  return [halted && `${halted} halted`, unknown && `${unknown} unknown`, broken.length && `${broken.length} broken`].filter(Boolean);
}

function item(line) {
  const lag = line.waiting ? `${short(line.waiting)} waiting${line.waiting_ms === null ? "" : `, ${rough(line.waiting_ms)}`}` : "nothing waits";
  return h(
    "li",
    { key: line.pipeline },
    h(
      "a",
      { href: addressOf(line.pipeline), "aria-current": line.pipeline === state.name ? "page" : null },
      h("span", { class: "name" }, line.pipeline),
      badge(line.phase),
      h("span", { class: "facts" }, lag),
      h("span", { class: "facts end" }, line.step ? `step ${count(line.step)}` : "no step yet"),
      line.step_ms && line.phase === "running" && h("span", { class: "facts unseen" }, `, ${ago(line.step_ms, serverNow())}`),
    ),
  );
}

function lost(name, why) {
  return h(
    "li",
    { key: `!${name}` },
    h(
      "a",
      { href: addressOf(name), "aria-current": name === state.name ? "page" : null },
      h("span", { class: "name" }, name),
      badge("broken"),
      h("span", { class: "facts all" }, why),
    ),
  );
}

function filter() {
  const typed = (event) => change({ filter: event.target.value });
  return h("input", {
    type: "search",
    class: "filter",
    placeholder: "Find a pipeline",
    "aria-label": "Find a pipeline",
    oninput: typed,
  });
}

function nothing() {
  return h(
    "p",
    { class: "empty" },
    "There is no pipeline in this cluster. A node submits one when it starts: ",
    h("code", {}, "kcontrol run FILE.py"),
  );
}
