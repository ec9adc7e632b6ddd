/* What stands between the reader and the truth: no connection, a token that is wanted, or a server that waits for Kafka. */

import { h } from "../dom.js";
import { time } from "../format.js";
import { state } from "../store.js";
import { look } from "../watching.js";
import { openTokenDialog } from "./token.js";

export function connection() {
  if (state.connection === "lost") return [lost()];
  if (state.connection === "refused") return [refused()];
  return state.ready?.blocked.length ? [blocked()] : [];
}

function lost() {
  const what = state.trouble.status ? "The server can't answer now. " : "Connection lost. ";
  const asOf = state.seenMs ? `What is shown is as of ${time(state.seenMs)}. ` : "";
  return h(
    "div",
    { class: "banner bad", key: "lost" },
    h("p", {}, h("strong", {}, what), `${state.trouble.message} ${state.trouble.remedy} ${asOf}Trying again by itself.`),
    h("button", { type: "button", onclick: look }, "Try now"),
  );
}

function refused() {
  return h(
    "div",
    { class: "banner", key: "refused" },
    h("p", {}, h("strong", {}, "The server wants its token. "), "Nothing is shown without it."),
    h("button", { type: "button", onclick: openTokenDialog }, "Enter token"),
  );
}

function blocked() {
  const waits = state.ready.blocked.map((each) => {
    const error = each.error ? ` (${each.error})` : "";
    return h("li", { key: each.phase }, `${each.phase}, since ${time(each.since_ms)}${error}`);
  });
  return h(
    "div",
    { class: "banner bad", key: "blocked" },
    h("div", {}, h("strong", {}, "The server waits, and what is shown may be old."), h("ul", {}, waits)),
  );
}
