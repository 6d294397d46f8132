// Why a key got its result: its windows over time, and what became of each of its records.
import { count, element, moment, plural, span, value } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 480, ROW = 22, EDGE = 8, BARS = 16;
const STEPS = new Set(["WindowAggregate", "SlidingAggregate", "SessionAggregate", "Deduplicate"]);

// The step that tells why: the one itself, or the nearest one before it, such as that before a suppression.
export function tellsWhy(picture, name) {
  for (const sub of picture.subs) {
    const byName = new Map(sub.parts.map((part) => [part.name, part])), seen = new Set();
    let next = byName.has(name) ? [name] : [];
    while (next.length) {
      const found = next.find((one) => STEPS.has(byName.get(one)?.step));
      if (found) return found;
      next.forEach((one) => seen.add(one));
      next = next.flatMap((one) => byName.get(one)?.predecessors ?? []).filter((one) => byName.has(one) && !seen.has(one));
    }
  }
  return null;
}

export function ownerOf(picture, store) {
  for (const sub of picture.subs) for (const part of sub.parts) if (part.stores.includes(store)) return part.name;
  return null;
}

// A key as `penstock why` reads it.
export function asText(key) {
  if (key && typeof key === "object" && typeof key.base64 === "string") {
    return `0x${[...atob(key.base64)].map((one) => one.charCodeAt(0).toString(16).padStart(2, "0")).join("")}`;
  }
  return value(key);
}

function svg(tag, attributes, title) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, one] of Object.entries(attributes)) made.setAttribute(name, one);
  if (title) { const told = document.createElementNS(SVG, "title"); told.textContent = title; made.append(told); }
  return made;
}

const between = ([start, end]) => `${moment(start)} – ${moment(end)}`;

function drawn(line, chosen) {
  const known = line.windows.length ? line.windows : line.records.flatMap((one) => one.closed);
  const windows = known.filter(([, end]) => end < 2 ** 53).slice(-BARS);
  const records = line.records.filter((one) => !windows.length || one.timestamp >= windows[0][0] || one.late);
  const times = [...records.map((one) => one.timestamp), ...windows.flat()];
  if (!times.length) return null;
  const low = Math.min(...times), high = Math.max(...times, ...windows.map(([, end]) => end + line.grace_ms).filter((end) => end <= Math.max(...times) + line.grace_ms));
  const x = (time) => EDGE + ((WIDTH - 2 * EDGE) * (Math.min(Math.max(time, low), high) - low)) / Math.max(high - low, 1);
  const height = ROW * (windows.length + 1) + 6;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "timeline", role: "img", "aria-label": "The key's windows over time" });
  windows.forEach((window, number) => {
    const y = 3 + number * ROW, [left, right, closed] = [x(window[0]), x(window[1]), x(window[1] + line.grace_ms)];
    const title = `${between(window)}, closed at ${moment(window[1] + line.grace_ms)}`;
    picture.append(svg("rect", { x: right, y: y + 5, width: Math.max(closed - right, 0), height: 6, class: "grace" }, title));
    const is = chosen && window[0] === chosen.start && window[1] === chosen.end;
    picture.append(svg("rect", { x: left, y, width: Math.max(right - left, 3), height: 16, rx: 4, class: is ? "window chosen" : "window" }, title));
  });
  for (const one of records) {
    const row = windows.findIndex(([start, end]) => one.windows.some((window) => window[0] === start && window[1] === end));
    const y = one.late || row < 0 ? height - 12 : 11 + row * ROW;
    picture.append(svg("circle", { cx: x(one.timestamp), cy: y, r: 4, class: one.late ? "late" : "came" }, `${moment(one.timestamp)} ${value(one.value)}: ${one.told}`));
  }
  if (line.stream_time >= low && line.stream_time <= high) picture.append(svg("path", { d: `M${x(line.stream_time)} 0V${height}`, class: "now" }, `stream time ${moment(line.stream_time)}`));
  return picture;
}

// Times as the page writes them, and the day once.
const plainly = (told) => told.replace(/(\d{4,}-\d\d-\d\d)T([\d:.]+)Z/g, "$1 $2").replace(/(\d{4,}-\d\d-\d\d) ([\d:.]+) – \1 /g, "$1 $2 – ");

export function explained(found, chosen, table, shown, more) {
  const lines = found.lines.filter((line) => line.records.length);
  if (!lines.length) return [element("p", { class: "quiet" }, "No record of this key has reached the step, among the records that were replayed."), note(found.lines[0], more)].filter(Boolean);
  return lines.flatMap((line) => {
    const late = line.late ? `, ${count(line.late)} of them late` : "";
    const left = line.of_key > line.records.length ? ` The newest ${line.records.length} are shown.` : "";
    const inside = (one) => chosen && [...one.windows, ...one.closed].some(([start, end]) => start === chosen.start && end === chosen.end);
    const newest = [...line.records].reverse();
    const listed = (rows) => {
      const made = table(["time", "value", "what became of it", "comes from"], rows.map((one) => [
        moment(one.timestamp), shown(one.value), plainly(one.told), `${one.topic}, partition ${one.partition}, offset ${one.offset}`]));
      made.querySelectorAll("tbody tr").forEach((row, number) => row.classList.toggle("late", rows[number].late));
      return made;
    };
    const own = newest.filter(inside), others = newest.filter((one) => !inside(one));
    const tables = own.length ? [element("h3", {}, "Records of this window"), listed(own)] : [];
    if (others.length) tables.push(element("h3", {}, own.length ? "Other records of the key" : "Records of the key"), listed(others));
    return [
      element("p", {}, `${plural(line.of_key, "record")} of the key${late}; stream time is ${moment(line.stream_time)}.${left}`),
      element("p", { class: "quiet" }, `A bar is a window, the thin part its grace period of ${span(line.grace_ms)}. A dot is a record; red ones were late.`),
      drawn(line, chosen), ...tables, note(line, more),
    ].filter(Boolean);
  });
}

// How much was replayed, and a way to replay more.
function note(line, more) {
  if (!line) return null;
  if (line.read >= line.present) return element("p", { class: "quiet" }, `All ${plural(line.present, "record")} of the program's topics were replayed.`);
  const next = Math.min(line.read * 10, 100_000);
  const told = `Only the newest ${plural(line.read, "record")} of ${plural(line.present, "record")} were replayed, so the oldest windows may lack records. `;
  return element("p", { class: "quiet" }, told,
    next > line.read ? element("button", { type: "button", class: "link", onclick: () => more(next) }, `Replay ${plural(next, "record")}`) : "");
}
