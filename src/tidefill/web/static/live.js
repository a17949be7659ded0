// The stream of figures: sections that changed are sent, and each page draws those it knows. The page goes on by itself
// when the server was away for a while.

import { duration, h, plural, say, show } from "./dom.js";

const trouble = document.getElementById("trouble");
const runners = document.getElementById("runners");
export const readOnly = meta("tidefill-read-only") !== "";

function meta(name) {
  return document.querySelector(`meta[name="${name}"]`).content;
}

for (const link of document.querySelectorAll("nav a")) {
  if (link.dataset.for === document.body.dataset.page) link.setAttribute("aria-current", "page");
}

// `draw(sections, changed, gone)` is called with all sections whenever some have changed.
export function follow(path, draw) {
  const sections = new Map();
  let heard = Date.now();
  let source = null;
  let ended = false;

  function open() {
    source = new EventSource(path);
    let first = true;
    source.onopen = () => { heard = Date.now(); };
    source.onmessage = (event) => {
      heard = Date.now();
      const told = JSON.parse(event.data);
      if (told.trouble !== undefined) {
        ended = ended || told["gone for good"] === true;
        if (ended) source.close();
        complain(ended ? `${told.trouble}.` : `The store does not answer: ${told.trouble}.`);
        return;
      }
      complain("");
      // After a lost connection everything is sent again: what is not in it is gone.
      const gone = first ? [...sections.keys()].filter((name) => !(name in told.set)) : told.gone;
      first = false;
      for (const name of gone) sections.delete(name);
      for (const [name, value] of Object.entries(told.set)) sections.set(name, value);
      draw(sections, new Set(Object.keys(told.set)), gone);
      if (sections.has("meta")) greet(sections.get("meta"));
    };
    source.onerror = () => {
      if (ended) return;
      complain(`The server does not answer. The figures are ${duration((Date.now() - heard) / 1000)} old; the page goes on by itself.`);
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    };
  }

  open();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
}

function complain(text) {
  say(trouble, text);
  show(trouble, text !== "");
}

function greet(found) {
  const none = found.runners === 0;
  runners.className = none ? "warn" : "";
  say(runners, none ? "⚠ no runner is alive: start `tidefill run`" : `● ${plural(found.runners, "runner")}`);
}

// Asks something of a job; answers with what was asked, or with the error as text.
export async function ask(job, action, body = {}) {
  try {
    const answer = await fetch(`/act/${encodeURIComponent(job)}/${action}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${meta("tidefill-token")}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const told = await answer.json();
    if (answer.ok) return { ok: true, text: told.told };
    return { ok: false, text: [told.fact, told.detail, told.hint].filter(Boolean).join(" – ") };
  } catch {
    return { ok: false, text: "The server does not answer." };
  }
}

// Has the page count on between two messages: ages, and the time that a step takes.
export function everySecond(tick) {
  setInterval(tick, 1000);
}

export function nowS() {
  return Date.now() / 1000;
}

export function note(text, ok = true) {
  return h("span", { class: ok ? "note" : "note bad" }, text);
}
