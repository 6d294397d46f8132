// Figures over time: four small plots, drawn from the points that the server keeps.
import { count, element, moment, put, rate, size, span } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300, HEIGHT = 64;
const PLOTS = [
  ["rate", "Records a second", rate],
  ["lag", "Behind", count],
  ["latency", "Latency", span],
  ["state", "State", size],
];

function svg(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export class Charts {
  constructor(place, spans) {
    Object.assign(this, { place, spans, span: "minutes", found: null, asked: 0, plots: [] });
    for (const button of spans.querySelectorAll("button")) {
      button.addEventListener("click", () => this.choose(button.value));
    }
    place.replaceChildren(...PLOTS.map(([name, title, told]) => this.plot(name, title, told)));
  }

  plot(name, title, told) {
    const now = element("span", { class: "rate" }), when = element("span", { class: "quiet" });
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title });
    const area = svg("path", { class: "area" }), line = svg("path", { class: "curve" }), at = svg("path", { class: "at" });
    drawing.append(area, line, at);
    const most = element("span", { class: "quiet" });
    const one = { name, told, now, when, area, line, at, most, drawing };
    drawing.addEventListener("pointermove", (event) => this.point(one, event));
    drawing.addEventListener("pointerleave", () => { one.chosen = null; this.say(one); });
    this.plots.push(one);
    return element("figure", { class: "plot", "data-plot": name },
      element("figcaption", {}, element("span", { class: "quiet" }, title), now), element("div", { class: "drawn" }, drawing), element("div", { class: "under" }, when, most));
  }

  choose(name) {
    this.span = name;
    for (const button of this.spans.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.value === name));
    this.asked = 0;
    this.look();
  }

  // Points are two seconds, or five minutes, apart: asking more often shows nothing new.
  async look() {
    const now = Date.now();
    if (now - this.asked < (this.span === "minutes" ? 2000 : 20_000)) return;
    this.asked = now;
    const span_ = this.span;
    try {
      const answer = await fetch(`api/history/${span_}`);
      if (!answer.ok || span_ !== this.span) return;
      this.found = await answer.json();
    } catch { return; } // the status line tells that the server does not answer
    for (const one of this.plots) this.draw(one);
  }

  draw(one) {
    const { at, step, points } = this.found, values = this.found[one.name];
    const end = at.length ? at.at(-1) : 0;
    const begin = Math.max(end - step * (points - 1), at.length ? at[0] : 0);
    const most = Math.max(...values.map((value) => value ?? 0), 0);
    const x = (time) => (end === begin ? WIDTH : (WIDTH * (time - begin)) / (end - begin));
    const y = (value) => HEIGHT - 3 - (most ? (HEIGHT - 9) * (value / most) : 0);
    const runs = [];
    at.forEach((time, place) => {
      if (values[place] === null) return;
      const follows = place > 0 && values[place - 1] !== null && time - at[place - 1] <= 3 * step;
      if (!follows) runs.push([]);
      runs.at(-1).push([x(time), y(values[place])]);
    });
    const path = (run) => (run.length === 1 ? `M${run[0][0] - 2} ${run[0][1]}h4` : `M${run.map((pair) => pair.map((part) => part.toFixed(1)).join(" ")).join("L")}`);
    one.line.setAttribute("d", runs.map(path).join(""));
    one.area.setAttribute("d", runs.filter((run) => run.length > 1).map((run) => `${path(run)}V${HEIGHT}H${run[0][0].toFixed(1)}Z`).join(""));
    put(one.most, most ? `most ${one.told(most)}` : "");
    Object.assign(one, { x, begin, end });
    this.say(one);
  }

  point(one, event) {
    if (!this.found?.at.length) return;
    const box = one.drawing.getBoundingClientRect();
    const time = one.begin + (one.end - one.begin) * Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    one.chosen = time;
    this.say(one);
  }

  // The newest point, or the one that is pointed at.
  say(one) {
    const { at } = this.found ?? { at: [] }, values = this.found?.[one.name] ?? [];
    let place = at.length - 1;
    if (one.chosen) place = at.reduce((best, time, number) => (Math.abs(time - one.chosen) < Math.abs(at[best] - one.chosen) ? number : best), 0);
    const value = values[place];
    put(one.now, value === undefined || value === null ? "–" : one.told(value));
    const pointed = one.chosen && place >= 0;
    put(one.when, pointed ? `${moment(at[place]).slice(11, 19)} UTC` : at.length > 1 ? `last ${span(one.end - one.begin)}` : "begins now");
    one.at.setAttribute("d", pointed ? `M${one.x(at[place]).toFixed(1)} 0V${HEIGHT}` : "");
  }
}
