// Numbers and dates in the language and time zone of the browser.

import { el } from "./dom.js";

// As in the terminal.
const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const whole = new Intl.NumberFormat();
const dates = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  timeZoneName: "short",
});

export const count = (number) => whole.format(number);

export function bytes(number) {
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
  const digits = unit > 0 && number < 100 ? 1 : 0;
  return `${number.toLocaleString(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${units[unit]}`;
}

export const speed = (number) => `${bytes(number)}/s`;

export function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let rest = Math.max(0, Math.round(seconds));
  const first = parts.findIndex(([size]) => rest >= size);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).map(([size, name]) => {
    const many = Math.floor(rest / size);
    rest -= many * size;
    return many > 0 ? `${many} ${name}` : "";
  }).filter(Boolean).join(" ");
}

/// A timestamp in unix ms as text.
export function date(milliseconds) {
  const moment = new Date(milliseconds);
  return Number.isNaN(moment.getTime()) ? "" : dates.format(moment);
}

export const time = (milliseconds) =>
  milliseconds ? el("time", { datetime: new Date(milliseconds).toISOString() }, date(milliseconds)) : "";

/// How far a job is: text, and a share from 0 to 1, or null if the length is unknown.
export function progress(job) {
  const received = job.received ?? 0;
  if (!job.total) return { text: received ? bytes(received) : "", share: null };
  const share = Math.min(1, received / job.total);
  return { text: `${Math.floor(share * 100)} % of ${bytes(job.total)}`, share };
}
