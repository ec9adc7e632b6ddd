/* The nodes: where they run, how far they are, and whether they are heard of. */

import { h } from "../dom.js";
import { count, span } from "../format.js";
import { badge } from "./badge.js";
import { table } from "./table.js";

/** A node speaks every second; what is older is worth words. */
const FRESH_MS = 5_000;

export function nodes(status) {
  const columns = [
    { name: "Node", kind: "id", of: (node) => node.node },
    { name: "State", of: (node) => badge(node.phase) },
    { name: "Step", kind: "number", of: (node) => step(node, status.step) },
    { name: "Process", kind: "long", of: (node) => (node.host ? `${node.host}:${node.process_id}` : "never joined") },
    { name: "Heard", of: heard },
  ];
  return h(
    "section",
    { class: "panel", key: "nodes", "aria-labelledby": "nodes-title" },
    h("h2", { id: "nodes-title" }, "Nodes"),
    table({ label: "Nodes", columns, rows: status.nodes, keyOf: (node) => node.node }),
    [...new Set(status.nodes.map((node) => node.planning).filter(Boolean))].map((planning) =>
      h("p", { class: "note", key: planning }, `Queries are planned ${planning}.`),
    ),
    status.nodes
      .filter((node) => node.error)
      .map((node) => h("p", { class: "note bad", key: node.node }, `Node ${node.node}: ${node.error}`)),
  );
}

function step(node, committed) {
  if (node.replaying !== null) return `${count(node.step)}, replays ${count(node.replaying)} of ${count(committed)}`;
  return count(node.step);
}

function heard(node) {
  if (node.phase === "absent") return "–";
  if (node.phase === "silent") return h("span", { class: "late" }, `silent for ${span(node.silent_ms)}`);
  return node.silent_ms < FRESH_MS ? "now" : `${span(node.silent_ms)} ago`;
}
