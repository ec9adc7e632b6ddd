/* Tells readers of the screen what sighted ones see change. */

export function announce(text) {
  document.getElementById("announced").textContent = text;
}
