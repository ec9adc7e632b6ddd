/* Who owns the state, how far a change of that is, and the way to ask for another number of nodes while steps are made. */

import { h } from "../dom.js";
import { bytes, count, counted, span } from "../format.js";
import { isPending, request } from "../requests.js";
import { look } from "../watching.js";
import { confirm } from "./confirm.js";

const OVER = ["done", "refused", "given_up"];
const WORDS = {
  asked: "No coordinator has looked at it yet",
  waiting: "Waiting",
  copying: "State is being copied; steps go on",
  switching: "No step is made until the change is recorded",
  done: "Done",
  refused: "Refused",
  given_up: "Given up",
};

/** Nothing of a pipeline that keeps no state, unless something was asked for. */
export function layout(status) {
  const { layout: now } = status;
  if (!now.shards.length && !now.change) return null;
  const underWay = now.change !== null && !OVER.includes(now.change.phase);
  return h(
    "section",
    { class: "panel", key: "layout", "aria-labelledby": "shards-title" },
    h("h2", { id: "shards-title" }, "Layout"),
    h("p", { class: "sub" }, owned(now)),
    now.balance && !underWay && h("p", { key: "balance", class: "note" }, now.balance),
    now.change && changed(now.change, underWay),
    form(status, underWay),
  );
}

function owned({ nodes, shards, number }) {
  const own = shards.length ? `, which own ${shards.map(count).join(", ")} shards of state` : "";
  return `${counted(nodes, "node")}${own}${number ? `; changed ${counted(number, "time")}` : ""}`;
}

function changed(change, underWay) {
  const asked = change.nodes ? `To ${counted(change.nodes, "node")}` : "Withdrawal";
  const what = change.why || asked;
  const replaced = change.replaced.length ? `, node ${change.replaced.join(", ")} by another process` : "";
  const upgrade = change.upgrade ? ` (upgrade, ${change.upgrade})` : "";
  const failed = change.phase === "refused" || change.phase === "given_up";
  return h(
    "div",
    { key: "change" },
    h("p", { class: failed && change.nodes ? "note bad" : "note" }, [
      `${what}${replaced}${upgrade}: ${WORDS[change.phase] ?? change.phase}`,
      change.text && `: ${change.text}`,
    ]),
    underWay && change.total_bytes !== null && progress(change),
  );
}

function progress({ moved_shards: shards, copied_bytes: copied, total_bytes: total, seconds_left: left }) {
  const soon = left ? `, about ${span(left * 1_000)} left` : "";
  const words = `${counted(shards, "shard")} move, ${bytes(copied)} of ${bytes(total)} copied${soon}`;
  return h(
    "p",
    { key: "progress" },
    h("progress", { max: Math.max(total, 1), value: total ? copied : 1, "aria-label": "State that is copied" }),
    ` ${words}`,
  );
}

function form(status, underWay) {
  const off = status.phase !== "running" || isPending(status.pipeline, "layout");
  const why = status.phase === "running" ? "It was asked for; see above." : "While it does not run, use kcontrol layout.";
  return h(
    "form",
    { key: "form", class: "layout", onsubmit: (event) => ask(event, status, off) },
    h(
      "label",
      { key: "nodes" },
      h("span", {}, "Nodes"),
      h("input", { name: "nodes", type: "number", min: 1, step: 1, required: true, placeholder: status.layout.nodes }),
    ),
    h("button", { key: "ask", type: "submit", title: off ? why : null, "aria-disabled": off ? "true" : null }, "Change…"),
    underWay &&
      h("button", { key: "withdraw", type: "button", class: "quiet", onclick: () => withdraw(status.pipeline) }, "Withdraw"),
  );
}

async function ask(event, status, off) {
  event.preventDefault();
  const nodes = Number(event.target.elements.nodes.value);
  if (off || !(await confirm(about(status, nodes)))) return;
  await request(status.pipeline, "layout", { nodes });
  look();
}

function about(status, nodes) {
  const now = status.layout.nodes;
  const how =
    nodes > now
      ? `Start the new processes first, each on its host: kcontrol node FILE --node ${now} --new, and so on. It waits for them.`
      : "The processes of the nodes with the highest numbers end once it is made.";
  return {
    title: `${status.pipeline}: ${counted(nodes, "node")} instead of ${count(now)}?`,
    text: `State is copied while steps go on, and then no step is made for some seconds. ${how}`,
    yes: "Change it",
  };
}

async function withdraw(name) {
  await request(name, "withdraw");
  look();
}
