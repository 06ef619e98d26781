// JSON whose numbers stay as they were written. JavaScript would change an integer of more than 53 bits, and a producer's
// data must come back as it was.

/// The digits of a number without zeros around them, and its exponent: the same for all texts of one number.
function digits(text) {
  const [, mantissa, exponent = "0"] = /^-?([\d.]+)(?:e([+-]?\d+))?$/i.exec(text);
  const [whole, part = ""] = mantissa.split(".");
  const all = (whole + part).replace(/^0+/, "");
  const bare = all.replace(/0+$/, "");
  return bare && `${bare}e${Number(exponent) - part.length + all.length - bare.length}`;
}

/// Whether JavaScript writes a number as the same number.
const isKept = (text) => Number.isFinite(Number(text)) && digits(text) === digits(String(Number(text)));

/// Parses JSON. A number that JavaScript would change becomes an object that JSON.stringify writes as it was. Older
/// browsers change it; with `mustKeep` they throw a sentence for the user.
export function parse(text, mustKeep = false) {
  if (!/[\d.]{16}|\d[eE]/.test(text)) return JSON.parse(text);
  if (JSON.rawJSON) return JSON.parse(text, (_, value, context) => (typeof value === "number" && !isKept(context.source) ? JSON.rawJSON(context.source) : value));
  const changed = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d[\d.]*(?:[eE][+-]?\d+)?/g)?.find((one) => !isKept(one));
  if (changed && mustKeep) throw new Error(`This browser would change the number ${changed}. Use a newer browser, or haul push.`);
  return JSON.parse(text);
}
