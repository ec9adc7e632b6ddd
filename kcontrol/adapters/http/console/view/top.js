/* The line at the top: what this is, which cluster, and whether what is shown is up to date. */

import { h } from "../dom.js";
import { time } from "../format.js";
import { state } from "../store.js";
import { token } from "../token.js";

export function top() {
  const { metadata } = state;
  return [
    h("span", { class: "mark" }, "kcontrol"),
    h("span", { class: "cluster" }, metadata ? [h("span", { class: "unseen" }, "Kafka at "), metadata.bootstrap_servers] : ""),
    h("span", { class: "spacer" }),
    h("span", { class: "live" }, words()),
    token.text && h("button", { type: "button", class: "quiet", onclick: forget }, "Forget token"),
  ];
}

function words() {
  switch (state.connection) {
    case "live":
      return ["connected", h("span", { class: "wide" }, ` · ${time(state.seenMs)}`)];
    case "lost":
      return "not connected";
    case "refused":
      return "token wanted";
    default:
      return "looking…";
  }
}

function forget() {
  token.keep("");
  // Nothing that was shown to the token's holder stays on the page, and no answer that is under way comes to it.
  location.reload();
}
