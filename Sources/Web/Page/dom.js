// Builds elements without parsing markup: every string becomes text.

const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = (name, attributes, ...children) => build(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => build(document.createElementNS(SVG, name), attributes, children);

/// A link to a page of this application. The URL of a job is never made a link.
export const link = (path, ...children) => el("a", { href: path }, ...children);

/// Links to the batches of a job. `names` has blanks between the names.
export const batchLinks = (names, path) =>
  (names ?? "").split(" ").filter(Boolean).flatMap((name) => [" ", link(path("batches", [name]), name)]).slice(1);

/// Writes a text only if it has changed, so that a selection in it stays.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function field(label, input, wide = false) {
  return el("label", { class: wide ? "field wide" : "field" }, el("span", {}, label), input);
}

/// A table in a box that scrolls by itself. Each of `heads` is [text, class].
export function table(name, heads) {
  const body = el("tbody");
  const cells = heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text));
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
    el("table", {}, el("caption", { hidden: true }, name), el("thead", {}, el("tr", {}, cells)), body));
  return { box, body };
}

/// Keeps a row for each key, so that the focus stays when the row is filled again. `make` returns `{ line, fill }`.
export function rows(body, make) {
  const known = new Map();
  return (items, keyOf) => {
    const keys = new Set(items.map(keyOf));
    for (const [key, { line }] of known) {
      if (!keys.has(key)) { line.remove(); known.delete(key); }
    }
    items.forEach((item, index) => {
      const key = keyOf(item);
      if (!known.has(key)) known.set(key, make());
      const { line, fill } = known.get(key);
      fill(item);
      if (body.children[index] !== line) body.insertBefore(line, body.children[index] ?? null);
    });
  };
}

let timer;
/// Shows a message for six seconds. Screen readers read it out.
export function showMessage(text) {
  const notice = document.getElementById("notice");
  notice.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => { notice.textContent = ""; }, 6000);
}

/// Asks before an action that cannot be undone. `consequence` says what it does, `verb` names it. Resolves to true if
/// the user agrees. The focus is on the button that changes nothing, so that Enter does no harm.
export function confirmed(question, consequence, verb) {
  return new Promise((resolve) => {
    const answer = (value) => { dialog.close(); dialog.remove(); resolve(value); };
    const dialog = el("dialog", { "aria-label": question },
      el("p", {}, el("strong", {}, question), " ", consequence),
      el("div", { class: "row" },
        el("button", { type: "button", autofocus: true, onclick: () => answer(false) }, "Keep as it is"),
        el("button", { type: "button", class: "danger", onclick: () => answer(true) }, verb)));
    dialog.addEventListener("cancel", () => answer(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}
