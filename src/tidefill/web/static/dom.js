// Elements, texts and numbers. Values of users become text nodes, never markup: nothing here parses HTML.

export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

// Sets the text if it is another one: to set the same again would end a selection.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, wanted) {
  if (element.hidden === wanted) element.hidden = !wanted;
}

export function count(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "?";
  const units = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]];
  const [unit, size] = units.find(([, one]) => value >= one) ?? ["", 1];
  const scaled = value / size;
  return (scaled >= 100 ? Math.floor(scaled) : Math.floor(scaled * 10) / 10) + unit;
}

export function plural(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "?";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let left = Math.max(Math.floor(seconds), 0);
  const parts = units.map(([unit, size]) => {
    const amount = Math.floor(left / size);
    left -= amount * size;
    return [amount, unit];
  });
  const first = Math.max(parts.findIndex(([amount]) => amount), 0);
  const from = parts.some(([amount]) => amount) ? first : parts.length - 1;
  const told = parts.slice(from, from + 2).filter(([amount]) => amount).map(([amount, unit]) => `${amount} ${unit}`);
  return told.join(" ") || "0 s";
}

export function seconds(value) {
  if (value < 0.1) return `${Math.round(value * 1000)} ms`;
  return value < 60 ? `${value.toFixed(value < 10 ? 2 : 1)} s` : duration(value);
}

export function bytes(value) {
  const units = [["TB", 2 ** 40], ["GB", 2 ** 30], ["MB", 2 ** 20], ["kB", 2 ** 10], ["B", 1]];
  const [unit, size] = units.find(([, one]) => value >= one) ?? ["B", 1];
  return `${(value / size).toFixed(1).replace(/\.0$/, "")} ${unit}`;
}

export function moment(atS) {
  const at = new Date(atS * 1000);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString()} `;
  return day + at.toLocaleTimeString();
}

export function versions(pairs) {
  const known = Object.entries(pairs).filter(([, [, after]]) => after !== null);
  const moved = known.filter(([, [before, after]]) => before !== after);
  return (moved.length ? moved : known)
    .map(([table, [before, after]]) => (before === null || before === after ? `${table} ${after}` : `${table} ${before} → ${after}`))
    .join(", ");
}
