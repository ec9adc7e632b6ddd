/* The bearer token: in this tab's session storage and nowhere else, gone when the tab is closed. */

const KEY = "kcontrol.token";

export const token = {
  /** '' when there is none. */
  text: read(),

  keep(text) {
    this.text = text;
    try {
      if (text) sessionStorage.setItem(KEY, text);
      else sessionStorage.removeItem(KEY);
    } catch {
      // Storage is switched off: the token then lasts as long as the page.
    }
  },
};

function read() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
