// Requests to the server. Paths are relative, so they work behind any prefix.

import { parse } from "./numbers.js";

export class Trouble extends Error {}

async function ask(path, options, mustKeepNumbers = false) {
  let response;
  try {
    response = await fetch(`api/${path}`, { cache: "no-store", ...options });
  } catch {
    throw Object.assign(new Trouble("the server does not answer"), { isUnanswered: true });
  }
  const text = await response.text().catch(() => "");
  let answer = {};
  try { answer = parse(text, mustKeepNumbers); } catch (error) {
    // A proxy may answer with a page of its own.
    if (response.ok && !(error instanceof SyntaxError)) throw error;
  }
  if (!response.ok) throw Object.assign(new Trouble(answer.message ?? `status ${response.status}`), { status: response.status });
  return answer;
}

export const get = (path) => ask(path);
/// What a producer has pushed. Throws if this browser cannot keep one of its numbers.
export const getPushed = (queue, id) => ask(inQueue(queue, "jobs", id, "pushed"), undefined, true);
/// `options` are more of fetch(), like `keepalive` for a request that outlives the page.
export const send = (method, path, body, options = {}) =>
  ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });

/// A segment of a path. Browsers remove the segments "." and "..", so the server takes "=" before them.
const segment = (part) => (/^\.\.?$/.test(part) ? `=${part}` : encodeURIComponent(part));
export const inQueue = (queue, ...parts) => ["queues", queue, ...parts].map(segment).join("/");

/// Whether a job or a batch can have this name.
export const isID = (text) => /^[A-Za-z0-9._:-]{1,128}$/.test(text);

/// Reads a path. Waits and tries again while the server says that too much is asked for at once.
export async function patiently(path) {
  for (;;) {
    try { return await get(path); } catch (error) {
      if (error.status !== 429) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 2000); });
    }
  }
}

/// `path` with the members of `query` that are not empty.
export function withQuery(path, query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}
