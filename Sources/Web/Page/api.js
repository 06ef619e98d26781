// Requests to the server. Paths are relative, so they work behind any prefix.

export class Trouble extends Error {}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(`api/${path}`, { cache: "no-store", ...options });
  } catch {
    throw new Trouble("the server does not answer");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Trouble(answer.message ?? `status ${response.status}`), { status: response.status });
  return answer;
}

export const get = (path) => ask(path);
export const send = (method, path, body) =>
  ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const inQueue = (queue, ...parts) => ["queues", queue, ...parts].map(encodeURIComponent).join("/");

/// `path` with the members of `query` that are not empty.
export function withQuery(path, query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}
