/* Asking the server. Every failure becomes a Failure that says what went wrong and what to do. */

import { token } from "./token.js";

const TIMEOUT_MS = 10_000;
const ROOT = new URL("../", document.baseURI);

/** kind: the problem's name ("unauthorized", "halted", …), or "unreachable" when none came. status: 0 without an answer. */
export class Failure extends Error {
  constructor(kind, status, detail, remedy) {
    super(detail);
    this.kind = kind;
    this.status = status;
    this.remedy = remedy;
  }
}

/** The server's clock, in milliseconds, by the header Date of its last answer; this machine's may be wrong. */
export function serverNow() {
  return Date.now() + skewMs;
}

let skewMs = 0;

/** The body of an answer, and its status. Throws Failure. `accepted`: statuses beside 2xx whose body is an answer too. */
export async function get(path, query = {}, accepted = []) {
  return ask("GET", path, query, accepted);
}

/** The same for a write, or for a question, which has a body and may take longer. */
export async function post(path, body = null, timeoutMs = TIMEOUT_MS) {
  return ask("POST", path, {}, [], body, timeoutMs);
}

async function ask(method, path, query, accepted, sent = null, timeoutMs = TIMEOUT_MS) {
  const url = new URL(path, ROOT);
  for (const name in query) url.searchParams.set(name, query[name]);
  const headers = token.text ? { Authorization: `Bearer ${token.text}` } : {};
  if (sent) headers["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout(timeoutMs);
  let answer, body;
  try {
    answer = await fetch(url, { method, headers, cache: "no-store", signal, ...(sent && { body: JSON.stringify(sent) }) });
    body = await answer.json();
  } catch (error) {
    throw unreachable(error, answer, timeoutMs);
  }
  noteClock(answer);
  if (answer.ok || accepted.includes(answer.status)) return body;
  throw failureOf(answer.status, body);
}

function unreachable(error, answer, timeoutMs) {
  if (answer)
    return new Failure(
      "unreachable",
      answer.status,
      `The answer (${answer.status}) can't be read.`,
      "See to what lies between.",
    );
  const late = error.name === "TimeoutError";
  const detail = late ? `The server has not answered within ${timeoutMs / 1000} s.` : "The server can't be reached.";
  return new Failure("unreachable", 0, detail, "See whether its process runs.");
}

function failureOf(status, problem) {
  const kind =
    String(problem.type ?? "")
      .split(":")
      .pop() || "error";
  return new Failure(kind, status, problem.detail || problem.title || `Status ${status}`, problem.remedy ?? "");
}

function noteClock(answer) {
  const said = Date.parse(answer.headers.get("Date") ?? "");
  // Date has whole seconds; a smaller difference says nothing.
  if (Number.isFinite(said)) skewMs = Math.abs(said - Date.now()) > 2_000 ? said - Date.now() : 0;
}
