// The topology as a picture: a box a sub-topology, records flow downwards, never wider than the page.
import { count, element, named, plural, rate, short, size } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const GAP = 22, RISE = 40, PAD = 20, HEAD = 34, TOPIC = 40, STEP = 58, STORE = 24;

function cardWidth(width) { return Math.max(140, Math.min(216, (width - 2 * PAD - GAP) / (width < 520 ? 2 : 1))); }

// --- layers ---------------------------------------------------------------------------------------------------------

function layered(sub, most) {
  const layer = new Map(), full = [];
  for (const part of inOrder(sub.parts)) {
    let at = Math.max(-1, ...part.predecessors.map((name) => layer.get(name) ?? -1)) + 1;
    while ((full[at] ?? 0) >= most) at += 1;
    full[at] = (full[at] ?? 0) + 1;
    layer.set(part.name, at);
  }
  const layers = Array.from({ length: full.length }, () => []);
  for (const part of sub.parts) layers[layer.get(part.name)].push({ part, above: [], below: [] });
  return layers.map((items) => items ?? []);
}

function inOrder(parts) {
  const byName = new Map(parts.map((part) => [part.name, part])), done = new Map();
  const add = (part) => {
    if (done.has(part.name)) return;
    done.set(part.name, part);
    part.predecessors.forEach((name) => byName.has(name) && add(byName.get(name)));
    done.delete(part.name);
    done.set(part.name, part);
  };
  parts.forEach(add);
  return [...done.values()];
}

// Steps that a long line passes get an invisible place, so that the line goes between cards and not below them.
function withPlaces(layers, most) {
  const at = new Map();
  layers.forEach((items, number) => items.forEach((item) => at.set(item.part.name, [item, number])));
  for (const [item, number] of [...at.values()]) {
    for (const name of item.part.predecessors) {
      if (!at.has(name)) continue;
      let [from, above] = at.get(name);
      for (let between = above + 1; between < number; between += 1) {
        const real = layers[between].filter((one) => one.part).length;
        if (real >= most) continue;
        const place = { part: null, above: [from], below: [] };
        from.below.push(place);
        layers[between].push(place);
        from = place;
      }
      from.below.push(item);
      item.above.push(from);
    }
  }
}

function sorted(layers) {
  const mean = (items, order) => items.reduce((sum, one) => sum + order.get(one), 0) / items.length;
  const order = new Map();
  const number = (items) => items.forEach((item, place) => order.set(item, place / Math.max(items.length, 1)));
  layers.forEach(number);
  for (let sweep = 0; sweep < 6; sweep += 1) {
    const side = sweep % 2 ? "below" : "above";
    for (const items of sweep % 2 ? [...layers].reverse() : layers) {
      const wish = new Map(items.map((item) => [item, item[side].length ? mean(item[side], order) : order.get(item)]));
      items.sort((one, other) => wish.get(one) - wish.get(other));
      number(items);
    }
  }
}

function placed(layers, room) {
  for (const items of layers) {
    let x = 0;
    for (const item of items) { item.x = x + item.w / 2; x += item.w + GAP; }
    const all = x - GAP;
    for (const item of items) item.x += (room - all) / 2;
  }
  for (let sweep = 0; sweep < 8; sweep += 1) {
    const side = sweep % 2 ? "below" : "above";
    for (const items of sweep % 2 ? [...layers].reverse() : layers) {
      for (const item of items) {
        if (item[side].length) item.x = item[side].reduce((sum, one) => sum + one.x, 0) / item[side].length;
      }
      spread(items, room);
    }
  }
}

function spread(items, room) {
  let left = 0;
  for (const item of items) {
    item.x = Math.max(item.x, left + item.w / 2);
    left = item.x + item.w / 2 + GAP;
  }
  let right = room;
  for (const item of [...items].reverse()) {
    item.x = Math.min(item.x, right - item.w / 2);
    right = item.x - item.w / 2 - GAP;
  }
}

function boxed(sub, width) {
  const card = cardWidth(width), room = width - 2 * PAD;
  const most = Math.max(1, Math.floor((room + GAP) / (card + GAP)));
  const layers = layered(sub, most);
  withPlaces(layers, most);
  for (const items of layers) {
    for (const item of items) {
      item.w = item.part ? card : 2;
      item.h = !item.part ? 0 : item.part.kind === "processor" ? STEP + STORE * item.part.stores.length : TOPIC;
    }
    const real = items.filter((item) => item.part).length;
    const spare = room - real * (card + GAP) + GAP;
    if ((items.length - real) * (GAP + 2) > spare) items.splice(0, items.length, ...items.filter((item) => item.part));
  }
  for (const item of layers.flat()) {
    const kept = (one) => one.part || layers.some((items) => items.includes(one));
    item.above = item.above.map((one) => { while (!kept(one)) one = one.above[0]; return one; });
  }
  sorted(layers);
  placed(layers, room);
  const items = layers.flat();
  const low = Math.min(...items.map((item) => item.x - item.w / 2)), high = Math.max(...items.map((item) => item.x + item.w / 2));
  let y = HEAD;
  for (const row of layers) {
    const tall = Math.max(...row.map((item) => item.h), 0);
    for (const item of row) { item.x += PAD - low; item.y = y + (tall - item.h) / 2; }
    y += tall + RISE;
  }
  return { sub, items, w: high - low + 2 * PAD, h: y - RISE + PAD };
}

// --- boxes in rows, those that are sent records below those that send ------------------------------------------------

function ranked(subs) {
  const depth = new Map(subs.map((sub) => [sub.id, 0]));
  const topics = (sub, kind) => new Set(sub.parts.filter((part) => part.kind === kind).flatMap((part) => part.topics));
  for (let round = 0; round < subs.length; round += 1) {
    for (const one of subs) {
      for (const other of subs) {
        if (one === other || depth.get(other.id) > depth.get(one.id) || depth.get(one.id) >= subs.length) continue;
        if ([...topics(one, "sink")].some((topic) => topics(other, "source").has(topic))) depth.set(other.id, depth.get(one.id) + 1);
      }
    }
  }
  return depth;
}

export function laidOut(picture, width) {
  const depth = ranked(picture.subs);
  const boxes = picture.subs.filter((sub) => sub.parts.length).map((sub) => boxed(sub, width));
  const rows = [];
  for (const box of [...boxes].sort((a, b) => depth.get(a.sub.id) - depth.get(b.sub.id) || a.sub.id - b.sub.id)) {
    const row = rows.at(-1);
    if (row && row.depth === depth.get(box.sub.id) && row.w + GAP + box.w <= width) { row.boxes.push(box); row.w += GAP + box.w; }
    else rows.push({ depth: depth.get(box.sub.id), boxes: [box], w: box.w });
  }
  let y = 0;
  for (const row of rows) {
    let x = (width - row.w) / 2;
    for (const box of row.boxes) { box.x = x; box.y = y; x += box.w + GAP; }
    y += Math.max(...row.boxes.map((box) => box.h)) + RISE;
  }
  return { boxes, height: Math.max(y - RISE, 0) };
}

// --- drawing --------------------------------------------------------------------------------------------------------

function line(x1, y1, x2, y2) {
  const bend = Math.max(Math.min(Math.abs(y2 - y1) / 2, 60), 14);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

function svg(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function at(made, x, y, w, h) {
  Object.assign(made.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
  return made;
}

export class Graph {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
    this.cards = new Map();
    this.lines = [];
    this.width = 0;
    new ResizeObserver(() => { if (this.picture && Math.abs(place.clientWidth - this.width) > 4) this.draw(this.picture); }).observe(place);
  }

  draw(picture) {
    this.picture = picture;
    this.width = this.place.clientWidth;
    this.place.classList.toggle("narrow", this.width < 520);
    const { boxes, height } = laidOut(picture, this.width);
    const drawing = svg("svg", { width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, "aria-hidden": "true" });
    const made = [];
    this.cards.clear();
    this.lines = [];
    const senders = new Map(), readers = [];
    for (const box of boxes) {
      made.push(at(this.box(box), box.x, box.y, box.w, box.h));
      for (const item of box.items) {
        const x = box.x + item.x, y = box.y + item.y;
        for (const above of item.above) {
          this.line(drawing, box.x + above.x, box.y + above.y + above.h, x, y, this.source(above) ?? "");
        }
        if (!item.part) { drawing.append(svg("path", { d: `M${x} ${y}v${item.h}`, class: "line" })); continue; }
        for (const topic of item.part.topics) {
          if (item.part.kind === "sink") senders.set(topic, [...(senders.get(topic) ?? []), [item, x, y + item.h]]);
          if (item.part.kind === "source") readers.push([topic, x, y]);
        }
        made.push(at(this.card(item.part), x - item.w / 2, y, item.w, item.h));
      }
    }
    for (const [topic, x, y] of readers) {
      for (const [item, fromX, fromY] of senders.get(topic) ?? []) this.line(drawing, fromX, fromY, x, y, item.part.name, "far", HEAD);
    }
    this.place.replaceChildren(drawing, ...made);
    this.place.style.height = `${height}px`;
    if (this.figures) this.update(this.figures);
  }

  source(item) {
    while (item && !item.part) item = item.above[0];
    return item?.part.name;
  }

  // The last stretch is straight, so that it passes between the words in a box's head.
  line(drawing, x1, y1, x2, y2, name, more = "", straight = 0) {
    const path = svg("path", { d: `${line(x1, y1, x2, y2 - straight)}V${y2}`, class: `line ${more}` });
    this.lines.push([path, name]);
    drawing.append(path);
  }

  box({ sub }) {
    const tasks = sub.tasks ? plural(sub.tasks, "task") : "global table";
    return element("div", { class: "box" }, element("span", {}, `Sub-topology ${sub.id}`), element("span", { class: "quiet" }, tasks));
  }

  card(part) {
    return part.kind === "processor" ? this.step(part) : this.topic(part);
  }

  topic(part) {
    const card = element("button", { type: "button", class: `pill ${part.kind}`, title: part.name, "data-node": part.name },
      element("span", { class: "title" }, part.topics.map(short).join(", ")), element("span", { class: "rate" }));
    card.addEventListener("click", () => this.choose({ topic: part.topics[0], node: part.name }));
    this.cards.set(part.name, { card, rate: card.lastChild, part });
    return card;
  }

  step(part) {
    const { title, step } = named(part);
    const figure = element("span", { class: "rate" }), marks = element("span", { class: "marks" });
    const button = element("button", { type: "button", class: "open", title: part.name },
      element("span", { class: "upper" }, element("span", { class: "title" }, title), figure),
      element("span", { class: "lower" }, element("span", { class: "quiet step" }, step), marks));
    button.addEventListener("click", () => this.choose({ node: part.name }));
    const sizes = new Map();
    const stores = part.stores.map((store) => {
      const shown = element("span", { class: "rate" });
      sizes.set(store, shown);
      return element("button", { type: "button", class: "store", title: `Store ${store}`, onclick: () => this.choose({ store }) },
        element("span", { class: "title" }, short(store)), shown);
    });
    const card = element("div", { class: "step-card", "data-node": part.name }, button, ...stores);
    this.cards.set(part.name, { card, rate: figure, marks, sizes, part });
    return card;
  }

  update(figures) {
    this.figures = figures;
    for (const [name, shown] of this.cards) {
      const one = figures.nodes[name] ?? { rate: 0, records: 0 };
      const text = one.rate ? `${rate(one.rate)}/s` : one.records ? count(one.records) : "";
      if (shown.rate.textContent !== text) shown.rate.textContent = text;
      shown.card.classList.toggle("busy", one.rate > 0);
      if (shown.marks) this.mark(shown, one, figures);
    }
    for (const [path, name] of this.lines) path.classList.toggle("busy", (figures.nodes[name]?.rate ?? 0) > 0);
  }

  mark(shown, one, figures) {
    const dropped = Object.values(one.drops ?? {}).reduce((sum, records) => sum + records, 0);
    const text = `${dropped}|${one.held ?? ""}`;
    if (shown.text !== text) {
      shown.text = text;
      shown.marks.replaceChildren(...[
        dropped ? element("b", { class: "bad", title: Object.entries(one.drops).map(([why, n]) => `${n} ${why}`).join(", ") }, `${count(dropped)} left out`) : null,
        one.held !== undefined ? element("b", { class: "wait" }, `${count(one.held)} held`) : null,
      ].filter(Boolean));
    }
    for (const [store, place] of shown.sizes) {
      const found = figures.stores[store];
      const words = !found ? "" : this.width < 520 ? size(found.bytes) : `${count(found.rows)} · ${size(found.bytes)}`;
      if (place.textContent !== words) place.textContent = words;
    }
  }

  select(node) {
    for (const [name, { card }] of this.cards) card.classList.toggle("chosen", name === node);
  }
}
