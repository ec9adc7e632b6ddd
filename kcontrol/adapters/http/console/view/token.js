/* Asks for the bearer token when the server wants one. */

import { announce } from "../announce.js";
import { h, render } from "../dom.js";
import { change, state } from "../store.js";
import { token } from "../token.js";
import { look } from "../watching.js";
import { closeFromOutside, setOpen } from "./modal.js";

const dialog = document.getElementById("token");
closeFromOutside(dialog, () => dialog.close());
let asked = null;

/** Opens the dialog once for each time that the server has refused. */
export function askForToken() {
  if (state.connection !== "refused" || asked === state.trouble) return;
  asked = state.trouble;
  openTokenDialog();
}

export function openTokenDialog() {
  render(
    dialog,
    h(
      "form",
      { onsubmit: submit },
      h("h2", { id: "token-title" }, "Token"),
      h(
        "p",
        { id: "token-text" },
        token.text ? "The server does not know this token. " : "",
        "It is in the file that the server was given with --token-file. This tab keeps it until it is closed.",
      ),
      h("label", { for: "token-field" }, "Token"),
      h("input", {
        id: "token-field",
        name: "token",
        type: "password",
        autocomplete: "off",
        spellcheck: "false",
        required: true,
        autofocus: true,
        pattern: "\\s*[\\x21-\\x7e]+\\s*",
        title: "One word of ASCII characters.",
      }),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "submit", class: "filled" }, "Use it"),
      ),
    ),
  );
  dialog.querySelector("form").reset();
  setOpen(dialog, true);
}

function submit(event) {
  event.preventDefault();
  token.keep(event.target.elements.token.value.trim());
  event.target.reset();
  dialog.close();
  announce("The token is tried.");
  change({ connection: "looking" });
  look();
}
