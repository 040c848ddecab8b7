/**
 * Requests to the broker, and their problems.
 *
 * Rule 1: every write and every read goes through here: one place knows the address, and one knows what a refusal looks like.
 * Rule 2: nothing is kept of passwords; a session is a cookie that this script cannot read.
 */

const V1 = "/api/v1";

/** A refusal of the broker: a problem document (RFC 9457). */
export class Problem extends Error {
  /** @param {number} status @param {any} document */
  constructor(status, document) {
    super(document.detail || document.title || `the broker answered ${status}`);
    this.status = status;
    this.document = document;
  }
}

/** Called when a request needs a sign-in. */
export const events = { signInNeeded: () => {} };

/** A path under `/api/v1` with its parts escaped: path`/topics/${name}`. */
export function path(strings, ...parts) {
  return strings.reduce((text, piece, at) => text + piece + (at < parts.length ? encodeURIComponent(parts[at]) : ""), "");
}

/** A query of the members that have a value. */
export function query(members) {
  const given = Object.entries(members).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return given.length ? "?" + given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&") : "";
}

/** @returns {Promise<any>} the document that the broker answers with */
export async function request(method, address, body, signal) {
  const url = address.startsWith("/health") ? address : V1 + address;
  let answer;
  try {
    answer = await fetch(url, {
      method,
      signal,
      credentials: "same-origin",
      cache: "no-store",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Problem(0, { detail: "The broker does not answer. It may be restarting: this page tries again." });
  }
  const text = await answer.text();
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(answer.status, { detail: `The broker answered ${answer.status} with something that is no JSON.` });
  }
  // /health says with 503 that the node is unhealthy, and why.
  if (answer.ok || (answer.status === 503 && url === "/health" && found && "live" in found)) return found;
  if (answer.status === 401 && address !== "/session") events.signInNeeded();
  throw new Problem(answer.status, found || {});
}

export const get = (address, signal) => request("GET", address, undefined, signal);
export const post = (address, body, signal) => request("POST", address, body ?? {}, signal);
export const put = (address, body) => request("PUT", address, body);
export const patch = (address, body) => request("PATCH", address, body);
export const remove = (address, body) => request("DELETE", address, body);

/** Records of a topic as they arrive. */
export function stream(topic, parameters) {
  return new EventSource(`${V1}${path`/topics/${topic}/stream`}${query(parameters)}`);
}
