// What several pages draw: the badge of a state, bars, lag, and what a job does or waits for.

import { bytes, count, duration, h, plural, say, svg } from "./dom.js";
import { nowS } from "./live.js";

const MARKS = {
  created: "○", backfilling: "◔", verifying: "◑", live: "●", paused: "❚❚", failed: "✕", cancelling: "⌫",
};

export function badge(state) {
  const element = h("span", { class: "badge" });
  setBadge(element, state);
  return element;
}

export function setBadge(element, state) {
  element.dataset.state = state;
  say(element, `${MARKS[state] ?? "?"} ${state}`);
}

export function bar() {
  return h("span", { class: "bar", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 }, h("span"));
}

export function setBar(element, line) {
  element.dataset.state = line.state;
  element.setAttribute("aria-valuenow", line.percent);
  element.setAttribute("aria-label", `${line.percent} % filled`);
  element.firstChild.style.width = `${line.share * 100}%`;
}

// Seconds count on during a step, if some were there when it began.
export function lagOf(line) {
  if (line.waits_for === "IDLE") return { text: "none", s: 0, bad: false };
  if (line.lag_versions === 0 && !line.doing) return { text: "none", s: 0, bad: false };
  const grown = line.lag_s !== null && line.doing && line.at_s !== null ? Math.max(0, nowS() - line.at_s) : 0;
  const s = line.lag_s === null ? null : line.lag_s + grown;
  const parts = [];
  if (line.lag_versions) parts.push(plural(line.lag_versions, "version"));
  if (s !== null && s > 0) parts.push(duration(s));
  return { text: parts.join(", ") || (line.lag_s === null && line.lag_versions === null ? "–" : "none"), s: s ?? 0 };
}

export function activity(line) {
  if (line.failure && line.state === "failed") return `${line.failure.fact} [${line.failure.code}]`;
  const parts = [];
  if (line.condition) parts.push(line.condition);
  if (line.wishes.length) parts.push(`asked to ${line.wishes.join(" and ")}`);
  if (line.doing) parts.push(`${line.doing.text} for ${duration(nowS() - line.doing.began_s)}`);
  else if (line.waits_for === "IDLE") parts.push("up to date");
  else if (line.waiting && !(line.state === "paused" && line.waits_for === "PAUSED")) parts.push(`waits for ${line.waiting}`);
  if (line.pause === "fill" && line.state === "backfilling" && line.waits_for !== "FILL_PAUSED") parts.push("fill paused");
  if (line.log_bytes) parts.push(`${bytes(line.log_bytes)} of log kept`);
  return parts.join(" · ");
}

export function rate(line) {
  const works = line.state === "backfilling" && line.runs;
  return works && line.rows_per_s >= 0.1 ? `${count(line.rows_per_s)} rows/s` : "";
}

export function left(line) {
  const works = line.state === "backfilling" && line.runs;
  return works && line.eta_s !== null ? `${duration(line.eta_s)} left` : "";
}

export function age(line) {
  return line.at_s === null ? "" : duration(nowS() - line.at_s);
}

export function sparkline(values, width = 96, height = 22) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, 1);
  const step = width / Math.max(values.length - 1, 1);
  const points = values
    .map((value, at) => (value === null ? null : `${(at * step).toFixed(1)},${(height - 2 - (value / top) * (height - 4)).toFixed(1)}`))
    .filter((point) => point !== null);
  const label = known.length ? `lag of the last ${known.length} steps, at most ${duration(top)}` : "no lag is known";
  return svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svg("title", {}, label),
    points.length > 1 ? svg("polyline", { points: points.join(" ") }) : null,
  );
}
