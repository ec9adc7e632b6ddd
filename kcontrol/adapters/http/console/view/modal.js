/* Modal dialogs: the browser keeps the focus inside, closes on Escape and gives the focus back. */

/** Shows or hides one. Focus goes to the element with `autofocus`, or to the first that can have it. */
export function setOpen(dialog, open) {
  if (open && !dialog.open) dialog.showModal();
  else if (!open && dialog.open) dialog.close();
}

/** A click on what lies around a dialog closes it, as Escape does: by `close()`. */
export function closeFromOutside(dialog, close) {
  dialog.addEventListener("click", (event) => {
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    const inside = event.clientX >= left && event.clientX <= right && event.clientY >= top && event.clientY <= bottom;
    // Enter on a button is a click at 0, 0, but never on the dialog itself.
    if (event.target === dialog && !inside) close();
  });
}
