/* Regions: where each is, what its members are at, its newest cuts, and what it waits for. */

import { serverNow } from "../api.js";
import { h } from "../dom.js";
import { ago, count, counted, time } from "../format.js";
import { addressOf } from "../route.js";
import { state } from "../store.js";
import { badge } from "./badge.js";
import { table } from "./table.js";

export function regions() {
  if (!state.regions) return [h("h1", {}, "Regions"), h("p", { class: "empty" }, "Not known yet.")];
  if (!state.regions.length) return [h("h1", {}, "Regions"), nothing()];
  return [h("div", { class: "title", key: "title" }, h("h1", {}, "Regions")), ...state.regions.map(region)];
}

function nothing() {
  return h("p", { class: "empty" }, "No region is defined in this cluster: ", h("code", {}, "kcontrol region apply FILE.toml"));
}

function region(one) {
  return h(
    "section",
    { class: "panel", key: one.region, "aria-labelledby": `region-${one.region}` },
    h("h2", { id: `region-${one.region}` }, one.region),
    h("p", { class: "about" }, badge(one.state ?? "unknown"), ` ${about(one)}`),
    one.waits_for.map((why) => h("p", { class: "note bad", key: why }, `waits for ${why}`)),
    memberTable(one),
    one.cuts.length ? cutTable(one) : h("p", { class: "empty" }, "It has no cut yet."),
  );
}

function about(one) {
  const said = [one.held && "held at its newest cut", one.going_back_to && `being taken back to cut ${count(one.going_back_to)}`];
  if (one.reset_attempt) said.push(`${count(one.reset_attempt)} of ${counted(one.max_reset_attempts, "attempt")} at a reset`);
  said.push(one.heard_ms === null ? "nobody has been in charge yet" : `led by ${one.controller}${one.ended ? ", which has ended" : ""}`);
  if (one.heard_ms !== null) said.push(`heard ${ago(one.heard_ms, serverNow())}`);
  return `${said.filter(Boolean).join("; ")}.`;
}

function memberTable(one) {
  const columns = [
    { name: "Pipeline", kind: "id", of: (member) => h("a", { href: addressOf(member.pipeline) }, member.pipeline) },
    { name: "Is told", kind: "code", of: (member) => member.told ?? "–" },
    { name: "Has done", of: (member) => member.part?.replaceAll("_", " ") ?? "–" },
  ];
  return table({ label: `Members of ${one.region}`, columns, rows: one.pipelines, keyOf: (member) => member.pipeline });
}

function cutTable(one) {
  const columns = [
    { name: "Cut", kind: "number", of: (cut) => count(cut.number) },
    { name: "Made", of: (cut) => time(cut.made_ms) },
    { name: "Steps", kind: "long", of: (cut) => cut.steps.map((each) => `${each.pipeline} ${count(each.step)}`).join(", ") },
  ];
  return table({ label: `Cuts of ${one.region}`, columns, rows: [...one.cuts].reverse(), keyOf: (cut) => cut.number });
}
