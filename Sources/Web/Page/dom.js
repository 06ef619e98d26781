// Builds elements without parsing markup: every string becomes text.

const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    // The content security policy allows no style in an attribute, but properties.
    else if (name === "style") for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = (name, attributes, ...children) => build(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => build(document.createElementNS(SVG, name), attributes, children);

/// A link to a page of this application. The URL of a job is never made a link.
export const link = (path, ...children) => el("a", { href: path }, ...children);

/// Writes a text only if it has changed, so that a selection in it stays.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/// Replaces the children only if `key` has changed, so that focus and selection in them stay.
export function redraw(node, key, make) {
  const text = JSON.stringify(key);
  if (node.drawnKey === text) return;
  node.drawnKey = text;
  const children = make();
  node.replaceChildren(...[children].flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

export function field(label, input, wide = false) {
  return el("label", { class: wide ? "field wide" : "field" }, el("span", {}, label), input);
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
      if (!known.has(key)) known.set(key, make(key));
      const { line, fill } = known.get(key);
      fill(item);
      if (body.children[index] !== line) body.insertBefore(line, body.children[index] ?? null);
    });
  };
}

/// A card with a title, what explains it, what stands at the right of its header, and its content.
export function card(title, { note, side, className = "", level = "h2" } = {}, ...content) {
  const head = el("div", { class: "card-head" }, el(level, {}, title), note ? el("span", { class: "dim" }, note) : null,
    side ? el("div", { class: "side" }, side) : null);
  return el("section", { class: `card ${className}` }, head, ...content);
}

/// A table in a box that scrolls by itself. Each of `heads` is [text, class].
export function table(name, heads) {
  const body = el("tbody");
  const cells = heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text));
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
    el("table", {}, el("caption", { class: "hidden" }, name), el("thead", {}, el("tr", {}, cells)), body));
  return { box, body };
}
