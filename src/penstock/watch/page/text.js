// Numbers, sizes and times as people read them, and elements made of text alone.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function put(id, text) {
  const place = typeof id === "string" ? document.getElementById(id) : id;
  if (place.textContent !== text) place.textContent = text;
}

const whole = new Intl.NumberFormat("en");

export function count(number) {
  if (number < 10_000) return whole.format(Math.round(number));
  for (const [unit, size] of [["B", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size) return `${(number / size).toFixed(number >= 100 * size ? 0 : 1)}${unit}`;
  }
  return String(number);
}

export const exact = (number) => whole.format(number);
export const rate = (number) => (number > 0 && number < 10 ? number.toFixed(1) : count(number));
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let step = 0;
  while (bytes >= 1024 && step < 4) { bytes /= 1024; step += 1; }
  return `${step ? bytes.toFixed(bytes < 10 ? 1 : 0) : bytes} ${units[step]}`;
}

export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function moment(ms) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const text = date.toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, ms % 1000 ? 23 : 19)}`;
}

// A number that JavaScript would show as another one, with the text it came as: 9007199254740993, 1.0, -0.0.
class Exact {
  constructor(text) { this.text = text; }
  valueOf() { return Number(this.text); }
  toString() { return this.text; }
}

const MARK = "\u0000number:";

// JSON in which no number is rounded.
export function parse(text) {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (found) => {
    if (found[0] === '"') return found.startsWith('"\\u0000') ? `"\\u0000${found.slice(1)}` : found;
    return String(Number(found)) === found ? found : `"\\u0000number:${found}"`;
  });
  return JSON.parse(marked, (name, one) => {
    if (typeof one !== "string" || one[0] !== MARK[0]) return one;
    return one.startsWith(MARK) ? new Exact(one.slice(MARK.length)) : one.slice(1);
  });
}

function json(one) {
  if (one instanceof Exact) return one.text;
  if (Array.isArray(one)) return `[${one.map(json).join(",")}]`;
  if (one && typeof one === "object") return `{${Object.entries(one).map(([name, part]) => `${JSON.stringify(name)}:${json(part)}`).join(",")}}`;
  return JSON.stringify(one);
}

export const value = (one) => (typeof one === "string" ? one : json(one));

// "KSTREAM-KEY-SELECT-0000000003" says nothing to a reader: its step does, with its number.
const generated = /^K[A-Z-]*-(\d{10})(.*)$/;
const words = (step) => step.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

// "KSTREAM-JOINTHIS-0000000010-store" as "jointhis 10 store"; what users named stays.
export function short(name) {
  const found = /^K(?:STREAM|TABLE)-(.*)-(\d{10})(.*)$/.exec(name) ?? /^(.*?)-?K?STATE-STORE-(\d{10})(.*)$/.exec(name);
  if (!found) return name;
  return `${found[1] === found[1].toUpperCase() ? found[1].toLowerCase().replaceAll("-", " ") : found[1]} ${Number(found[2])}${found[3].toLowerCase().replaceAll("-", " ")}`;
}

export function named(part) {
  const found = generated.exec(part.name);
  if (!found) return { title: part.name, step: words(part.step) };
  return { title: words(part.step), step: `${part.name.slice(0, -11 - found[2].length).toLowerCase().replace(/^k(stream|table)-/, "")} ${Number(found[1])}` };
}
