// The page of one job.

import { count, duration, h, moment, plural, say, seconds, show, svg, versions } from "./dom.js";
import { ask, everySecond, follow, readOnly } from "./live.js";
import { activity, age, badge, bar, lagOf, left, rate, setBadge, setBar } from "./parts.js";

const id = decodeURIComponent(location.pathname.split("/").pop());
const main = document.getElementById("main");
let line = null;

function section(title, ...content) {
  return h("section", { "aria-label": title }, h("h2", {}, title), ...content);
}

function swatch(kindOf, text) {
  return h("span", {}, h("i", { class: `swatch ${kindOf}` }), text);
}

function facts(pairs) {
  return h("dl", {}, ...pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// The head of the page.

const name = h("h1");
const kind = h("p", { class: "kind" });
const stateBadge = badge("created");
const progress = bar();
const figures = h("p", { class: "figures" });
const does = h("p", { class: "does", role: "status" });
const told = h("p", { class: "told", role: "status" });
const failure = h("section", { class: "failure", "aria-label": "Failure", hidden: true });

function drawHead() {
  document.title = `${line.name} - Tidefill`;
  say(name, line.name);
  say(kind, line.kind + (line.generation > 1 ? `, generation ${line.generation}` : "") + (line.published ? "" : ", not readable yet"));
  setBadge(stateBadge, line.state);
  setBar(progress, line);
  tickHead();
  const wrong = line.failure && line.state === "failed";
  show(failure, Boolean(wrong));
  if (wrong) {
    failure.replaceChildren(h("h2", {}, `✕ ${line.failure.fact}`), h("p", {}, h("code", {}, line.failure.code)),
      ...(line.failure.detail ? [h("p", { class: "pre" }, line.failure.detail)] : []),
      ...(line.failure.hint ? [h("p", {}, h("b", {}, "What to do: "), line.failure.hint)] : []));
  }
}

function tickHead() {
  const lag = lagOf(line);
  say(figures, [`${line.percent} %`, line.rows ? plural(count(line.rows), "row") : "", rate(line), left(line),
    line.version === null ? "" : `version ${line.version}`, lag.text === "–" ? "" : `lag: ${lag.text}`].filter(Boolean).join(" · "));
  const old = line.runs || !age(line) ? "" : ` No runner runs it; the figures are ${age(line)} old.`;
  const text = line.state === "failed" ? "" : activity(line);
  say(does, (text ? text[0].toUpperCase() + text.slice(1) : "") + old);
}

// The key line.

const keyLine = h("div", { class: "key-line" });
const splitList = h("ol", { class: "splits" });
const keySection = section("Key space", keyLine,
  h("p", { class: "legend" }, swatch("covered", "covered"), swatch("guessed", "covered, about so far"), swatch("reading", "being read"), swatch("", "not yet")),
  h("details", {}, h("summary", {}, "Every split in words"), splitList));

function drawKeyLine(splits) {
  show(keySection, splits.length > 0);
  const groups = Map.groupBy(splits, (split) => split.of);
  keyLine.replaceChildren(...[...groups].map(([of, each]) => h("div", { class: "walk" }, of ? h("p", {}, of) : null,
    h("div", { class: "track", role: "img", "aria-label": summaryOf(each) }, ...each.map(segment)),
    h("p", { class: "ends" }, h("span", {}, first(each)), h("span", {}, last(each))))));
  splitList.replaceChildren(...splits.map((split) => h("li", {},
    `${split.of ? `${split.of}: ` : ""}${split.range}: ${split.beyond ? "above all rows of the start; new rows come as changes" : split.reached}`,
    split.reading ? " – being read now" : "")));
}

function segment(split) {
  const filled = h("i", { class: split.guessed ? "guessed" : "covered" });
  filled.style.width = `${split.filled * 100}%`;
  const reading = h("i", { class: "reading" });
  return h("span", { class: `segment${split.beyond ? " beyond" : ""}`, title: `${split.range}: ${split.reached}${split.reading ? ", being read" : ""}` },
    filled, split.reading ? reading : null);
}

function summaryOf(splits) {
  const done = splits.filter((split) => split.state === "covered").length;
  return `${done} of ${plural(splits.length, "split")} covered, ${splits.filter((split) => split.reading).length} being read`;
}

const first = (splits) => splits[0].range.split(" .. ")[0].replace(/^\.\. .*/, "") || "first key";
const last = (splits) => {
  const end = splits.filter((split) => !split.beyond).at(-1) ?? splits.at(-1);
  return end.range.includes("..") ? end.range.split("..").pop().trim() || "last key" : "last key";
};

// The ladder of an index, and the things that a job makes.

const ladder = h("ol", { class: "ladder" });
const parts = h("ul", { class: "parts" });
const ladderSection = section("States of the index", ladder, parts);

function drawLadder(states) {
  show(ladderSection, states.length > 0);
  const marks = { done: "✓", now: "▶", "to come": "·" };
  ladder.replaceChildren(...states.map((each) => h("li", { "data-is": each.is, "aria-current": each.is === "now" ? "step" : null },
    `${marks[each.is]} ${each.state.replaceAll("_", " ").toLowerCase()}`)));
}

function drawParts() {
  parts.replaceChildren(...line.parts.map((part) => h("li", {}, h("b", {}, part.name),
    ` ${part.phase.replaceAll("_", " ").toLowerCase()}, ${count(part.rows_done)}${part.rows_of === null ? "" : ` of ${count(part.rows_of)}`} rows`,
    part.failure ? h("span", { class: "bad" }, ` ✕ ${part.failure}`) : null)));
}

// The timeline of steps.

const PHASES = ["look", "changes", "tidy", "commit", "confirm"];
const SHORT = { fill: "F", forward: "→", both: "B", full: "A", verify: "V" };
const chart = h("div", { class: "chart", tabindex: 0, role: "group", "aria-label": "Timeline of steps: the arrow keys go from step to step", onkeydown: moveStep });
const stepLine = h("p", { class: "step-line", role: "status" });
const stepTable = h("tbody");
const stepsSection = section("Steps", chart, stepLine,
  h("p", { class: "legend" }, ...PHASES.map((phase) => swatch(`phase-${phase}`, phase)), swatch("phase-other", "the rest"),
    h("span", {}, "F fill, → changes, B both, A all rows, V verify, ✕ an error")),
  h("details", {}, h("summary", {}, "The last steps as a table"), h("div", { class: "scroll" }, h("table", { class: "steps" },
    h("thead", {}, h("tr", {}, ...["At", "Step", "Took", "Rows in", "Rows out", "Versions", "Chunks"].map((title) => h("th", { scope: "col" }, title)))), stepTable))));
let steps = [];
let chosen = -1;

function drawSteps(found) {
  const follows = chosen < 0 || chosen >= steps.length - 1;
  steps = found;
  show(stepsSection, steps.length > 0);
  const longest = Math.max(...steps.map((step) => step.took_s), 0.001);
  chart.replaceChildren(...steps.map((step, at) => column(step, at, longest)));
  stepTable.replaceChildren(...steps.slice(-30).reverse().map((step) => h("tr", {}, ...[moment(step.began_s), step.error ? `${step.kind} ✕ ${step.error}` : step.kind,
    seconds(step.took_s), count0(step.rows_in), count0(step.rows_out), versions(step.versions), step.ranges.join(", ")].map((text) => h("td", {}, text)))));
  choose(follows ? steps.length - 1 : Math.min(chosen, steps.length - 1));
  if (follows) chart.scrollLeft = chart.scrollWidth;
}

const count0 = (rows) => (rows === null ? "" : count(rows));

function column(step, at, longest) {
  const rest = step.took_s - Object.values(step.phases).reduce((sum, each) => sum + each, 0);
  const stack = [...PHASES.map((phase) => [phase, step.phases[phase] ?? 0]), ["other", Math.max(rest, 0)]];
  const bars = stack.filter(([, took]) => took > 0).map(([phase, took]) => {
    const piece = h("i", { class: `phase-${phase}` });
    piece.style.height = `${(took / longest) * 100}%`;
    return piece;
  });
  return h("span", { class: `column${step.error ? " error" : ""}`, title: stepText(step), onclick: () => choose(at), onmouseenter: () => choose(at) },
    h("span", { class: "stack" }, ...bars), h("b", {}, step.error ? "✕" : SHORT[step.kind] ?? "·"));
}

function stepText(step) {
  const phases = Object.entries(step.phases).filter(([, took]) => took >= 0.005).map(([phase, took]) => `${phase} ${seconds(took)}`);
  return [step.error ? `${step.kind}: ${step.error}` : step.kind, moment(step.began_s), seconds(step.took_s),
    step.rows_in === null ? "" : `${count(step.rows_in)} rows in`, step.rows_out === null ? "" : `${count(step.rows_out)} rows out`,
    versions(step.versions), step.ranges.join(", "), phases.join(", ")].filter(Boolean).join(" · ");
}

function choose(at) {
  if (chart.children[chosen]) chart.children[chosen].classList.remove("chosen");
  chosen = at;
  if (chart.children[at]) chart.children[at].classList.add("chosen");
  say(stepLine, steps[at] ? stepText(steps[at]) : "");
}

function moveStep(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1, Home: -steps.length, End: steps.length }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  choose(Math.min(Math.max(chosen + by, 0), steps.length - 1));
  chart.children[chosen]?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// Lag over time.

const lagPlace = h("div", { class: "lag-chart" });
const lagSection = section("Lag", lagPlace);

function drawLag(points) {
  show(lagSection, points.length > 3);
  if (points.length <= 3) return;
  const [width, height] = [600, 110];
  const from = points[0][0];
  const span = Math.max(points.at(-1)[0] - from, 1);
  const top = Math.max(...points.map(([, lag]) => lag), 1);
  const at = ([atS, lag]) => `${(((atS - from) / span) * width).toFixed(1)},${(height - (lag / top) * (height - 4)).toFixed(1)}`;
  const label = `Lag over the last ${duration(span)}, at most ${duration(top)}`;
  lagPlace.replaceChildren(
    svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("polygon", { points: `0,${height} ${points.map(at).join(" ")} ${width},${height}` })),
    h("p", { class: "ends" }, h("span", {}, moment(from)), h("span", {}, `at most ${duration(top)}`), h("span", {}, moment(points.at(-1)[0]))));
}

// Settings and actions.

const rateInput = h("input", { type: "number", min: 0, step: 1, placeholder: "none", inputmode: "numeric", id: "rate" });
const parallelInput = h("input", { type: "number", min: 1, step: 1, inputmode: "numeric", id: "parallel" });
const parallelLabel = h("label", { for: "parallel" }, "Parallelism");
const moreSettings = h("div");
const buttons = {
  pause: button("❚❚ Pause", () => send("pause")),
  fill: button("Pause the fill", () => send("pause-fill")),
  resume: button("▶ Resume", () => send("resume")),
  cancel: button("Cancel …", () => dialog.showModal()),
};
const dialog = h("dialog", { "aria-label": "Cancel the job" },
  h("p", {}, "Cancel this job? What it has made so far is removed."),
  h("div", { class: "actions" }, button("Keep it", () => dialog.close()), button("Yes, cancel it", () => { dialog.close(); send("cancel"); }, "danger")));
const controls = readOnly ? h("p", { class: "kind" }, "This page is read-only.") : h("div", {},
  h("div", { class: "actions" }, ...Object.values(buttons)),
  h("form", { class: "settings", onsubmit: (event) => { event.preventDefault(); alter(); } },
    h("label", { for: "rate" }, "Rate limit, rows/s"), rateInput, parallelLabel, parallelInput,
    h("button", { type: "submit" }, "Set")));

function button(text, act, kindOf = "") {
  return h("button", { type: "button", class: kindOf || null, onclick: act }, text);
}

async function send(action, body) {
  const answer = await ask(id, action, body);
  told.className = answer.ok ? "told" : "told bad";
  say(told, answer.text);
}

function alter() {
  const body = { rate_limit: rateInput.value === "" ? null : Number(rateInput.value) };
  if (parallelInput.value !== "" && !parallelInput.disabled) body.parallelism = Number(parallelInput.value);
  send("alter", body);
}

function drawSettings(settings) {
  if (document.activeElement !== rateInput) rateInput.value = settings.rate_limit ?? "";
  if (document.activeElement !== parallelInput) parallelInput.value = settings.parallelism;
  moreSettings.replaceChildren(facts(settings.told));
}

function drawButtons(ladderOfServer) {
  const stopped = line.pause === "all" || line.state === "failed" || line.pause === "fill";
  const ends = line.state === "cancelling" || line.wishes.includes("drop");
  const disabled = {
    pause: line.pause === "all" || line.state === "failed" || ends,
    fill: line.state !== "backfilling" || line.pause !== "nothing" || ends,
    resume: !stopped || ends,
    cancel: line.published || ends,
  };
  for (const [action, off] of Object.entries(disabled)) buttons[action].disabled = off;
  buttons.cancel.title = line.published ? "It is live: DROP removes it, in SQL or by `tidefill drop`" : "";
  parallelInput.disabled = ladderOfServer;
  for (const each of [parallelInput, parallelLabel]) show(each, !ladderOfServer);
}

// Definition, plan, events.

const definition = h("div");
const plan = h("div");
const planSection = section("Plan", plan);
const events = h("ol", { class: "events" });

function drawDefinition(found) {
  definition.replaceChildren(...(found.sql ? [h("pre", {}, found.sql)] : []), facts(found.facts));
}

function drawPlan(found) {
  show(planSection, found !== null);
  if (found === null) return;
  const notices = facts(found.facts);
  plan.replaceChildren(...(found.nodes.length ? [tree(found.nodes)] : []), h("details", {}, h("summary", {}, "What EXPLAIN said"), notices));
}

function tree(nodes) {
  const root = h("ul", { class: "tree" });
  const open = [[-1, root]];
  for (const node of nodes) {
    while (open.at(-1)[0] >= node.depth) open.pop();
    const inside = h("ul");
    open.at(-1)[1].append(h("li", {}, h("b", {}, node.what), `: ${node.how}`, inside));
    open.push([node.depth, inside]);
  }
  for (const list of root.querySelectorAll("ul")) if (!list.children.length) list.remove();
  return root;
}

function drawEvents(found) {
  events.replaceChildren(...found.map(([atS, text]) => h("li", {}, h("time", {}, moment(atS)), " ", text)));
}

main.replaceChildren(
  h("p", { class: "back" }, h("a", { href: "/" }, "← all jobs")),
  h("div", { class: "head" }, h("div", {}, name, kind), stateBadge),
  progress, figures, does, failure, told,
  section("Actions", controls), dialog, keySection, ladderSection, stepsSection, lagSection,
  h("div", { class: "columns" }, section("Definition", definition), section("Settings", moreSettings)),
  planSection, section("Events", events));
for (const hidden of [keySection, ladderSection, stepsSection, lagSection, planSection]) hidden.hidden = true;

const DRAW = {
  "key line": drawKeyLine, settings: drawSettings, definition: drawDefinition, plan: drawPlan, ladder: drawLadder,
  events: drawEvents, steps: drawSteps, lag: drawLag,
};

follow(`/stream/job/${encodeURIComponent(id)}`, (sections, changed) => {
  line = sections.get("line");
  if (changed.has("line")) {
    drawHead();
    drawParts();
  }
  for (const [part, draw] of Object.entries(DRAW)) if (changed.has(part)) draw(sections.get(part));
  drawButtons(sections.get("ladder").length > 0);
});
everySecond(() => { if (line) tickHead(); });
