// The page of all jobs: a table that is sorted and filtered here, and updated in place.

import { h, plural, say, show } from "./dom.js";
import { everySecond, follow } from "./live.js";
import { activity, age, badge, bar, lagOf, left, rate, setBadge, setBar, sparkline } from "./parts.js";

const ORDER = ["failed", "cancelling", "paused", "backfilling", "verifying", "created", "live"];
const COLUMNS = [
  { name: "job", title: "Job", by: (line) => line.name.toLowerCase() },
  { name: "state", title: "State", by: (line) => ORDER.indexOf(line.state) },
  { name: "progress", title: "Filled", by: (line) => line.share },
  { name: "lag", title: "Lag", by: (line) => -lagOf(line).s },
  { name: "does", title: "Does or waits for", by: (line) => activity(line) },
];

const rows = new Map();
let lines = [];
let sorting = { column: COLUMNS[0], down: false };

const search = h("input", {
  type: "search", placeholder: "Filter by name, kind or text  ( / )", "aria-label": "Filter jobs", oninput: arrange,
});
const state = h("select", { "aria-label": "State", onchange: arrange }, h("option", { value: "" }, "all states"),
  ...ORDER.map((each) => h("option", { value: each }, each)));
const summary = h("p", { class: "summary", role: "status" });
const headers = COLUMNS.map((column) => h("th", { scope: "col", class: column.name },
  h("button", { type: "button", onclick: () => sortBy(column) }, column.title)));
const body = h("tbody");
const table = h("table", { class: "jobs" }, h("thead", {}, h("tr", {}, ...headers)), body);
const empty = h("p", { class: "empty" }, "No jobs yet. Create one with `tidefill sql`.");

document.getElementById("main").replaceChildren(
  h("h1", {}, "Jobs"), h("div", { class: "tools" }, search, state), summary, table, empty);
document.title = "Jobs - Tidefill";

addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    search.focus();
  }
});

function sortBy(column) {
  sorting = { column, down: sorting.column === column && !sorting.down };
  arrange();
}

function newRow(line) {
  const parts = {
    name: h("a", { href: `/job/${encodeURIComponent(line.id)}` }),
    kind: h("small"), badge: badge(line.state), bar: bar(), percent: h("b"), pace: h("small"),
    lag: h("span"), spark: h("span", { class: "spark-place" }), does: h("span", { class: "clamp" }), age: h("small"),
  };
  const row = h("tr", {},
    h("th", { scope: "row", class: "job" }, parts.name, parts.kind),
    h("td", { class: "state" }, parts.badge),
    h("td", { class: "progress" }, h("span", { class: "with-percent" }, parts.bar, parts.percent), parts.pace),
    h("td", { class: "lag" }, parts.lag, parts.spark),
    h("td", { class: "does" }, parts.does, parts.age));
  return { row, parts, lags: "" };
}

function update(entry, line) {
  const { parts, row } = entry;
  row.dataset.state = line.state;
  say(parts.name, line.name);
  say(parts.kind, line.kind);
  setBadge(parts.badge, line.state);
  setBar(parts.bar, line);
  say(parts.percent, `${line.percent} %`);
  say(parts.pace, [rate(line), left(line)].filter(Boolean).join(" · "));
  say(parts.lag, lagOf(line).text);
  say(parts.does, activity(line));
  say(parts.age, line.runs || !age(line) ? "" : `no runner; figures are ${age(line)} old`);
  const lags = line.lags.join();
  if (entry.lags !== lags) {
    entry.lags = lags;
    parts.spark.replaceChildren(...(line.lags.filter((lag) => lag !== null).length > 1 ? [sparkline(line.lags)] : []));
  }
}

function arrange() {
  const wanted = search.value.trim().toLowerCase();
  const { column, down } = sorting;
  const shown = lines.filter((line) => (!state.value || line.state === state.value)
    && (!wanted || `${line.name} ${line.kind} ${line.state} ${activity(line)}`.toLowerCase().includes(wanted)));
  shown.sort((one, other) => {
    const [a, b] = [column.by(one), column.by(other)];
    const order = a < b ? -1 : a > b ? 1 : one.name.localeCompare(other.name);
    return down ? -order : order;
  });
  headers.forEach((header, at) => {
    const sorted = COLUMNS[at] === column ? (down ? "descending" : "ascending") : null;
    if (sorted) header.setAttribute("aria-sort", sorted);
    else header.removeAttribute("aria-sort");
  });
  const wantedRows = shown.map((line) => rows.get(line.id).row);
  const same = wantedRows.length === body.children.length && wantedRows.every((row, at) => row === body.children[at]);
  if (!same) {
    const focused = document.activeElement;
    body.replaceChildren(...wantedRows);
    if (focused && focused.isConnected) focused.focus();
  }
  show(empty, lines.length === 0);
  show(table, lines.length > 0);
  summarise(shown.length);
}

function summarise(shown) {
  const by = ORDER.map((each) => [each, lines.filter((line) => line.state === each).length]).filter(([, number]) => number);
  const told = by.map(([each, number]) => `${number} ${each}`).join(", ");
  say(summary, `${shown === lines.length ? plural(shown, "job") : `${shown} of ${plural(lines.length, "job")}`}${told ? `: ${told}` : ""}`);
}

function tick() {
  for (const line of lines) update(rows.get(line.id), line);
}

follow("/stream/jobs", (sections, changed, gone) => {
  for (const id of gone) rows.delete(id);
  lines = [...sections.entries()].filter(([name]) => name !== "meta").map(([, line]) => line);
  for (const line of lines) {
    if (!rows.has(line.id)) rows.set(line.id, newRow(line));
    if (changed.has(line.id)) update(rows.get(line.id), line);
  }
  arrange();
});
everySecond(tick);
