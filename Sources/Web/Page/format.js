// Numbers, sizes and times in the language and time zone of the browser. Sizes are decimal, as in the terminal.

import { el } from "./dom.js";

const units = ["B", "kB", "MB", "GB", "TB", "PB"];
const whole = new Intl.NumberFormat();
const tenths = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const exact = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});
const clocks = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const days = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/// How far the server's clock is ahead of this browser's, in ms; null while that is unknown.
let clockOffset = null;
/// How old the server's time may be in an answer, in ms.
const MAX_AGE = 5000;
/// Takes over the server's time from an answer. The latest time counts, because answers are shared and may be seconds old.
/// Returns whether ages were wrong before.
export function setServerTime(now) {
  const next = now - Date.now();
  const change = next - (clockOffset ?? 0);
  if (clockOffset !== null && change < 0 && change > -MAX_AGE) return false;
  clockOffset = next;
  return Math.abs(change) > 1000;
}
/// The time by the server's clock, with which ages are computed.
export const serverNow = () => Date.now() + (clockOffset ?? 0);

export const count = (number) => whole.format(number);
/// A number with its noun: `plural(1, "job")` is "1 job".
export const plural = (number, noun, many = `${noun}s`) => `${count(number)} ${number === 1 ? noun : many}`;

function scaled(number, smallest) {
  let unit = 0;
  while (number >= 999.5 && unit < units.length - 1) { number /= 1000; unit += 1; }
  return [unit > 0 && number < smallest ? tenths.format(number) : whole.format(Math.round(number)), units[unit]];
}

export const bytes = (number) => scaled(number, 99.95).join(" ");
export const speed = (number) => `${scaled(number, 9.95).join(" ")}/s`;
/// The size and the unit of a speed, for a chart: `[value to divide by, unit]`.
export function scale(most) {
  let unit = 0;
  while (most >= 1000 ** (unit + 1) && unit < units.length - 1) unit += 1;
  return [1000 ** unit, units[unit]];
}

export const percent = (share) => `${Math.floor(share * 100)} %`;

/// At most two units of a duration in seconds.
function parts(seconds, names, most = 2) {
  let rest = Math.max(0, Math.round(seconds));
  const sizes = [86400, 3600, 60, 1];
  const first = sizes.findIndex((size) => rest >= size);
  if (first < 0) return `0 ${names[3]}`;
  return sizes.slice(first, first + most).map((size, index) => {
    const many = Math.floor(rest / size);
    rest -= many * size;
    return many > 0 ? `${many} ${names[first + index]}` : "";
  }).filter(Boolean).join(" ");
}

/// For a sentence: "1 min 30 s".
export const duration = (seconds) => parts(seconds, ["d", "h", "min", "s"]);
/// Behind "the last": "day", "week", "12 h".
export const spanOf = (seconds) => ({ 3600: "hour", 86_400: "day", 604_800: "week" })[seconds] ?? duration(seconds);
/// For a table: "1 m 30 s", from ten minutes on "11 min".
export function short(seconds) {
  const rounded = Math.round(seconds);
  if (rounded >= 600 && rounded < 3600 || rounded >= 60 && rounded < 600 && rounded % 60 === 0) return `${Math.round(rounded / 60)} min`;
  return parts(seconds, ["d", "h", "m", "s"]);
}
/// For an age: one unit.
export function age(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  const many = Math.floor(seconds / 86400);
  return many === 1 ? "1 day" : `${many} days`;
}

/// A timestamp in unix ms as text.
export function date(milliseconds) {
  const moment = new Date(milliseconds);
  return Number.isNaN(moment.getTime()) ? "" : exact.format(moment);
}
export const clock = (milliseconds) => clocks.format(new Date(milliseconds));
export const minute = (milliseconds) => minutes.format(new Date(milliseconds));
export const day = (milliseconds) => days.format(new Date(milliseconds));

/// A `time` element with a text, whose exact time appears under the pointer.
export function time(milliseconds, text = date(milliseconds)) {
  if (!milliseconds || Number.isNaN(new Date(milliseconds).getTime())) return "";
  return el("time", { datetime: new Date(milliseconds).toISOString(), title: date(milliseconds) }, text);
}
/// How long ago something was, by the server's clock.
export const ago = (milliseconds, now) => time(milliseconds, age((now - milliseconds) / 1000));

/// How far a job is, from 0 to 1; null if its length is unknown.
export const share = (job) => (job.total ? Math.min(1, (job.received ?? 0) / job.total) : null);
/// The seconds that are left; null if they are unknown.
export const left = (job) => (job.total && job.speed > 0 ? (job.total - (job.received ?? 0)) / job.speed : null);

/// The name of a job's file and its directory, or what else names the job best.
export function fileOf(job) {
  const path = job.file ?? job.path ?? "";
  const start = path.lastIndexOf("/") + 1;
  if (path && start < path.length) return { name: path.slice(start), folder: path.slice(0, start) };
  const folder = path;
  const address = (job.url ?? "").replace(/[?#].*$/, "").replace(/^[a-z0-9]+:\/\//, "");
  const last = address.slice(address.indexOf("/") < 0 ? address.length : address.lastIndexOf("/") + 1);
  let name = last;
  try { name = decodeURIComponent(last); } catch { /* It stays as it is. */ }
  if (!name) name = address || job.id;
  if (job.kind === "request") return { name: `${name} (${job.method ?? "GET"})`, folder: "" };
  if (job.kind === "upload") return { name, folder: job.host ? `to ${job.host}` : "" };
  return { name, folder };
}
