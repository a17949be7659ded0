// The graph: tables, replicas, views on views and indexes, from left to right; a line for what each reads.

import { duration, h, plural, show, svg } from "./dom.js";
import { follow } from "./live.js";
import { badge } from "./parts.js";

const columns = h("div", { class: "graph-columns" });
const lines = svg("svg", { class: "graph-lines", "aria-hidden": "true" });
const place = h("div", { class: "graph" }, lines, columns);
const empty = h("p", { class: "empty" }, "No tables and no jobs yet.");
document.getElementById("main").replaceChildren(h("h1", {}, "Graph"),
  h("p", { class: "summary" }, "What is read stands before what reads it. A dashed line: the reader has not taken in all of it yet."), place, empty);
document.title = "Graph - Tidefill";

let nodes = new Map();
const cards = new Map();

function card(key, node) {
  const title = node.job ? h("a", { href: `/job/${encodeURIComponent(node.job)}` }, node.name) : h("b", {}, node.name);
  const told = [];
  if (node.version !== null && node.version !== undefined) told.push(`version ${node.version}`);
  if (node.tick !== null && node.tick !== undefined) told.push(`tick ${node.tick}`);
  if (node.job && node.state !== "live") told.push(`${node.percent} %`);
  if (node.lag_versions) told.push(`${plural(node.lag_versions, "version")} behind${node.lag_s ? `, ${duration(node.lag_s)}` : ""}`);
  else if (node.lag_versions === 0) told.push("no lag");
  if (node.condition) told.push(node.condition);
  const reads = node.reads.map((edge) => {
    const below = nodes.get(edge.key);
    const at = edge.version === null ? "" : ` at version ${edge.version}`;
    const behind = edge.behind ? `, ${plural(edge.behind, "version")} behind` : "";
    return h("li", {}, `${below ? below.name : "?"}${at}${behind}`);
  });
  return h("article", { class: "node", "data-kind": node.job ? "job" : "table" },
    h("div", { class: "node-head" }, title, node.job ? badge(node.state) : null), h("small", {}, node.kind),
    told.length ? h("p", {}, told.join(" · ")) : null,
    reads.length ? h("div", {}, h("small", {}, "reads"), h("ul", {}, ...reads)) : null);
}

function draw(sections) {
  nodes = new Map([...sections].filter(([key]) => key !== "meta"));
  show(empty, nodes.size === 0);
  const deepest = Math.max(...[...nodes.values()].map((node) => node.depth), 0);
  cards.clear();
  const made = Array.from({ length: deepest + 1 }, () => h("div", { class: "graph-column" }));
  const places = new Map();
  for (const [key, node] of ordered(places)) {
    const element = card(key, node);
    cards.set(key, element);
    made[node.depth].append(element);
  }
  const focused = document.activeElement?.getAttribute("href");
  columns.replaceChildren(...made);
  if (focused) [...columns.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  connect();
}

// Column by column, each card about as high as what it reads, so that few lines cross.
function ordered(places) {
  const columnsOf = Map.groupBy([...nodes], ([, node]) => node.depth);
  const all = [];
  for (const depth of [...columnsOf.keys()].sort((one, other) => one - other)) {
    const height = ([, node]) => {
      const below = node.reads.map((edge) => places.get(edge.key)).filter((place) => place !== undefined);
      return below.length ? below.reduce((sum, place) => sum + place, 0) / below.length : 0;
    };
    const column = columnsOf.get(depth).sort((one, other) => height(one) - height(other) || one[1].name.localeCompare(other[1].name));
    column.forEach(([key], at) => places.set(key, at));
    all.push(...column);
  }
  return all;
}

function connect() {
  const box = columns.getBoundingClientRect();
  lines.setAttribute("width", columns.scrollWidth);
  lines.setAttribute("height", columns.scrollHeight);
  const drawn = [];
  for (const [key, node] of nodes) {
    for (const edge of node.reads) {
      const [from, to] = [cards.get(edge.key), cards.get(key)];
      if (!from || !to) continue;
      const [a, b] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
      const [x1, y1] = [a.right - box.left, a.top + Math.min(a.height / 2, 30) - box.top];
      const [x2, y2] = [b.left - box.left, b.top + Math.min(b.height / 2, 30) - box.top];
      const bend = Math.max((x2 - x1) / 2, 12);
      const behind = edge.behind || (edge.version !== null && nodes.get(edge.key).job === "" && node.lag_versions);
      drawn.push(svg("path", { d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, class: behind ? "behind" : null }));
    }
  }
  lines.replaceChildren(...drawn);
}

new ResizeObserver(connect).observe(columns);
follow("/stream/graph", draw);
