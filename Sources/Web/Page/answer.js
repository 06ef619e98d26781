// The server's answer to a request or an upload. All of it is shown as text.

import { card, el, write } from "./dom.js";
import { count } from "./format.js";

/// A card with the status, the header fields and the body; hidden for downloads.
export function answer(isOperator) {
  const status = el("span", { class: "chip" });
  const headers = el("dl", { class: "fields-of" });
  const note = el("p", { class: "dim" });
  const body = el("pre", { tabindex: 0, "aria-label": "Body of the response" });
  const box = card("The server’s response", { side: status }, headers, note, body);
  box.hidden = true;
  let shown = "";
  return {
    box,
    draw(job) {
      box.hidden = !job.kind;
      const content = JSON.stringify([job.status, job.headers, job.body, job.body_base64, job.response_dropped]);
      if (box.hidden || content === shown) return;
      shown = content;
      const isThere = job.status !== undefined;
      write(status, isThere ? `Status ${job.status}` : "Nothing yet");
      status.className = `chip ${!isThere ? "" : job.state === "failed" ? "red" : "green"}`;
      headers.replaceChildren(...Object.entries(job.headers ?? {}).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
      write(body, job.body ?? job.body_base64 ?? "");
      body.hidden = body.textContent === "";
      if (!isThere) write(note, "");
      else if (job.response_dropped) write(note, "The response was dropped: the queue keeps no more than max_responses_bytes of them.");
      else if (!isOperator) write(note, "Operators see its header fields and its body.");
      else if (job.body_base64 !== undefined) write(note, `The body is not text: ${count(atob(job.body_base64).length)} bytes, here in base 64.`);
      else write(note, body.hidden ? "It has no body." : "");
    },
  };
}
