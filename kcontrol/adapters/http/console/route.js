/* The page's addresses: #/PIPELINE, #/PIPELINE/steps/STEP and, which no pipeline can be called, #/:hosts and #/:regions. The browser's own history goes back and forth between them. */

/** The names of the pages about the cluster of agents, and about regions. */
export const HOSTS = ":hosts";
export const REGIONS = ":regions";

export const addressOf = (name, step = null) => `#/${encodeURIComponent(name)}${step === null ? "" : `/steps/${step}`}`;

/** What the address says: { name: '' or a pipeline's, step: null or a number }. */
export function readRoute() {
  const [, name = "", word, step] = location.hash.split("/");
  const known = word === "steps" && /^[1-9]\d*$/.test(step ?? "");
  return { name: decode(name), step: known ? Number(step) : null };
}

/** Goes elsewhere without a new entry in the history. */
export function replaceRoute(name, step = null) {
  location.replace(addressOf(name, step));
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
