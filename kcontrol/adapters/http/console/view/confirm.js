/* Asks before what can't be undone from here. The way back has the focus. */

import { h, render } from "../dom.js";
import { closeFromOutside, setOpen } from "./modal.js";

const dialog = document.getElementById("confirm");
closeFromOutside(dialog, () => dialog.close());

let answer = () => {};

/** True if the reader says yes; false for no, Escape, or a click elsewhere. */
export function confirm({ title, text, yes }) {
  answer(false);
  return new Promise((resolve) => {
    answer = resolve;
    const accept = () => {
      resolve(true);
      dialog.close();
    };
    render(
      dialog,
      h("h2", { id: "confirm-title" }, title),
      h("p", { id: "confirm-text" }, text),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "button", class: "danger filled", onclick: accept }, yes),
      ),
    );
    // The event comes after the closing; by then another question may be open, which it is not about.
    dialog.onclose = () => dialog.open || resolve(false);
    setOpen(dialog, true);
  });
}
