// Numbers, durations and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** 999, 12,345, 1.2M */
export const count = (value) => (value < 1e6 ? whole.format(value) : short.format(value));

/** A share in percent; a small one is never shown as 0. */
export function percent(part, all) {
  if (all === 0 || part === 0) return "0 %";
  const share = (100 * part) / all;
  if (share < 0.1) return "< 0.1 %";
  return `${tenth.format(share > 99.9 && part < all ? 99.9 : share)} %`;
}

/** 1 µs, 250 µs, 2.5 ms, 1 s */
export function time(ns) {
  if (ns < 1e6) return `${tenth.format(ns / 1e3)} µs`;
  if (ns < 1e9) return `${tenth.format(ns / 1e6)} ms`;
  return `${tenth.format(ns / 1e9)} s`;
}

/** 850 ms, 4.2 s, 12 min, 3 h, 2 days */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60e3) return `${tenth.format(ms / 1e3)} s`;
  if (ms < 3600e3) return `${tenth.format(ms / 60e3)} min`;
  if (ms < 48 * 3600e3) return `${tenth.format(ms / 3600e3)} h`;
  return `${tenth.format(ms / 86400e3)} days`;
}

/** now, 4 s ago, 3 min ago. Both times are from the service: the clock of this machine may differ. */
export function ago(then, now) {
  const seconds = Math.max(0, Math.round((Date.parse(now) - Date.parse(then)) / 1000));
  if (seconds < 2) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  return `${span(seconds * 1000)} ago`;
}

/** 19 Nov 2026, 14:35:07 */
export const date = (text) =>
  new Date(text).toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
