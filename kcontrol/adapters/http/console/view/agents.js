/* The cluster of agents: hosts, slots, what runs where, and why something waits. */

import { h } from "../dom.js";
import { count, counted } from "../format.js";
import { state } from "../store.js";
import { badge } from "./badge.js";
import { table } from "./table.js";

/** Entries of a log that an agent may be behind without a word: they are on their way. */
const FRESH = 5;

export function agents() {
  if (!state.agents) return [h("h1", {}, "Hosts"), h("p", { class: "empty" }, "Not known yet.")];
  const { cluster, agents: hosts, jobs, entries } = state.agents;
  if (!hosts.length && !jobs.length) return [h("h1", {}, "Hosts"), nobody()];
  const room = `${count(cluster.used)} of ${counted(cluster.slots, "slot")} taken`;
  return [
    h("div", { class: "title", key: "title" }, h("h1", {}, "Hosts")),
    h("p", { class: "about", key: "about" }, `${counted(cluster.members, "agent")}, ${room}. Scheduler: ${cluster.scheduler}.`),
    panel("hosts", "Agents", hostTable(hosts), troubles(hosts)),
    panel("jobs", "Jobs", jobs.length ? jobTable(jobs) : h("p", { class: "empty" }, "No job was placed yet: kcontrol place FILE.py --job NAME"), reasons(jobs), followed(jobs)),
    panel("log", "What happened", entryTable(entries)),
    h("p", { class: "asof", key: "asof" }, `As of offset ${count(cluster.as_of)} of the cluster's log.`),
  ];
}

function nobody() {
  return h("p", { class: "empty" }, "There is no agent in this cluster. On each host: ", h("code", {}, "kcontrol agent --files FOLDER"));
}

function panel(key, title, ...children) {
  return h("section", { class: "panel", key, "aria-labelledby": `${key}-title` }, h("h2", { id: `${key}-title` }, title), ...children);
}

function hostTable(hosts) {
  const columns = [
    { name: "Agent", kind: "id", of: (host) => host.agent },
    { name: "State", of: (host) => badge(host.draining ? "draining" : host.stage) },
    { name: "Slots", kind: "number", of: (host) => `${count(host.used)} of ${count(host.slots)}` },
    { name: "Tags", of: (host) => host.tags.join(", ") || "–" },
    { name: "Coordinator", of: coordinator },
    { name: "Watches", of: (host) => host.watches ?? "–" },
    { name: "Heard", of: heard },
  ];
  return table({ label: "Agents", columns, rows: hosts, keyOf: (host) => host.agent });
}

/** What agents start again and again in vain. */
function troubles(hosts) {
  return hosts.flatMap((host) => host.troubles.map((why) => h("p", { class: "note bad", key: why }, `${host.agent}: ${why}`)));
}

function coordinator(host) {
  if (host.coordinator_error) return h("span", { class: "late" }, `${host.coordinator ? "fails" : "can't run"}: ${host.coordinator_error}`);
  return host.coordinator ? "yes" : "–";
}

function heard(host) {
  if (host.differs_from.length) return h("span", { class: "late" }, `another value of the log than ${host.differs_from.join(", ")}`);
  if (host.behind === null) return h("span", { class: "late" }, "not yet");
  return host.behind < FRESH ? "up to date" : h("span", { class: "late" }, `${counted(host.behind, "entry", "entries")} behind`);
}

function jobTable(jobs) {
  const columns = [
    { name: "Job", kind: "id", of: (job) => job.job },
    { name: "State", of: (job) => badge(job.state === "active" ? (job.waits ? "waiting" : "running") : job.state) },
    { name: "Runs", kind: "code", of: (job) => job.package },
    { name: "Where", kind: "long", of: where },
  ];
  return table({ label: "Jobs", columns, rows: jobs, keyOf: (job) => job.job });
}

function where(job) {
  const placed = Object.entries(job.places).map(([unit, agent]) => `${unit} on ${agent ?? "nobody"}`);
  return placed.join(", ") || "–";
}

function reasons(jobs) {
  return jobs
    .filter((job) => job.waits || job.error)
    .map((job) => h("p", { class: "note bad", key: job.job }, `${job.job}: ${job.waits || job.error}`));
}

/** Jobs whose number of nodes follows the size of the cluster. */
function followed(jobs) {
  return jobs
    .filter((job) => job.bounds && job.state === "active")
    .map((job) => h("p", { class: "note", key: `${job.job}-bounds` }, `${job.job}: ${job.bounds_text}; has ${count(job.nodes)}, room for ${count(job.bounds.room)}`));
}

function entryTable(entries) {
  const columns = [
    { name: "Offset", kind: "number", of: (entry) => count(entry.offset) },
    { name: "Entry", kind: "id", of: (entry) => entry.kind },
    { name: "What it changed", kind: "long", of: (entry) => (entry.rejected ? `rejected: ${entry.rejected}` : entry.changes.join("; ") || "nothing") },
  ];
  return table({ label: "Entries", columns, rows: [...entries].reverse(), keyOf: (entry) => entry.offset });
}
