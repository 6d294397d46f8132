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

const UNITS = [["k", 1e3], ["M", 1e6], ["B", 1e9], ["T", 1e12]];

export function count(given) {
  const number = Number(given);
  if (!Number.isFinite(number)) return "–";
  if (Math.abs(number) < 9_999.5) return whole.format(Math.round(number));
  for (const [unit, size] of UNITS) {
    const text = (number / size).toFixed(Math.abs(number) >= 99.95 * size ? 0 : 1);
    if (Math.abs(Number(text)) < 1000) return `${text}${unit}`;
  }
  return number.toExponential(1).replace("e+", "e");
}

export const exact = (number) => (number instanceof Exact && /^-?\d+$/.test(number.text) ? whole.format(BigInt(number.text)) : whole.format(number));
export const rate = (number) => (number > 0 && number < 9.95 ? number.toFixed(1) : count(number));
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

const SIZES = ["B", "KB", "MB", "GB", "TB", "PB", "EB"];

export function size(given) {
  let bytes = Number(given), step = 0;
  while (bytes >= (step ? 1023.5 : 1024) && step < SIZES.length - 1) { bytes /= 1024; step += 1; }
  return `${step ? bytes.toFixed(bytes < 9.95 ? 1 : 0) : bytes} ${SIZES[step]}`;
}

export function span(given) {
  const ms = Number(given);
  if (ms < 0) return `-${span(-ms)}`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  const days = Math.floor(seconds / 86400);
  return days < 1000 ? `${days} d ${Math.floor((seconds % 86400) / 3600)} h` : `${whole.format(days)} d`;
}

export function moment(given) {
  const ms = Number(given), date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(given);
  const [day, time] = date.toISOString().split("T"); // years beyond 9999 are longer
  return `${day} ${time.slice(0, ms % 1000 ? 12 : 8)}`;
}

// A number that JavaScript would show as another one, with the text it came as: 9007199254740993, 1.0, -0.0.
class Exact {
  constructor(text) { this.text = text; }
  valueOf() { return Number(this.text); }
  toString() { return this.text; }
}

const MARK = "\u0000number:";

// JSON in which no whole number is rounded: figures, with which the page counts.
export const counted = (text) => (/[0-9]{16}/.test(text) ? parse(text, /^-?\d{16,}$/) : JSON.parse(text));

// JSON in which no number is rounded.
export function parse(text, which = /./) {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (found) => {
    if (found[0] === '"') return found.startsWith('"\\u0000') ? `"\\u0000${found.slice(1)}` : found;
    return String(Number(found)) === found || !which.test(found) ? found : `"\\u0000number:${found}"`;
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
