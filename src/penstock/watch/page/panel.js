// What is chosen, close up: a step, a topic, a store.
import { element, exact, moment, named, parse, plural, put, rate, short, size, span, value } from "./text.js";
import { asText, explained, ownerOf, tellsWhy } from "./why.js";

async function asked(address, headers = {}) {
  const answer = await fetch(address, { headers });
  const found = parse(await answer.text());
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function facts(pairs) {
  return element("dl", {}, ...pairs.filter(([, told]) => told !== "").flatMap(([name, told]) =>
    [element("dt", {}, name), element("dd", {}, told instanceof Node ? told : document.createTextNode(String(told)))]));
}

function table(columns, rows) {
  const cell = (one) => element("td", { class: typeof one === "number" ? "number" : "" }, one instanceof Node ? one : String(one));
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map((column) => element("th", {}, column)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell))))));
}

// Null stands apart from the text "null".
const shown = (one) => (one === null ? element("i", { class: "quiet" }, "null") : value(one));

const key = (one) => (one && typeof one === "object" && "start" in one && "end" in one
  ? `${value(one.key)}  ${moment(one.start)} – ${moment(one.end).slice(11)}` : shown(one));

const window_ = (row) => {
  const [start, end] = [row.window_start ?? row.session_start, row.window_end ?? row.session_end];
  return start === undefined ? null : { start, end };
};

export class Panel {
  constructor(place, title, body, onChoose) {
    Object.assign(this, { place, title, body, onChoose, chosen: null, figures: null, picture: null, asks: 0 });
  }

  show(chosen) {
    this.chosen = chosen;
    this.commit = null;
    this.body.replaceChildren();
    this.place.hidden = false;
    document.body.classList.add("with-panel");
    this.onChoose(chosen.node ?? null);
    if (chosen.letter) this.letter(chosen.letter);
    else if (chosen.why) this.why(chosen.why);
    else if (chosen.store) this.store(chosen.store);
    else if (chosen.topic) this.topic(chosen.topic);
    else this.step(chosen.node);
    this.place.focus({ preventScroll: true });
  }

  close() {
    this.chosen = null;
    this.place.hidden = true;
    document.body.classList.remove("with-panel");
    this.onChoose(null);
  }

  update(figures) {
    this.figures = figures;
    if (!this.chosen) return;
    this.refreshed?.(figures);
    if (this.commit !== figures.commit) {
      this.commit = figures.commit;
      this.again?.();
    }
  }

  begin(title, kind) {
    put(this.title, title);
    this.refreshed = this.again = null;
    const figures = element("div"), more = element("div", { class: "more" });
    this.body.replaceChildren(element("p", { class: "quiet" }, kind), figures, more);
    return { figures, more };
  }

  // What was asked for last is what is shown, whichever answer comes first.
  async into(place, address, make, headers) {
    const number = (this.asks += 1);
    place.dataset.asked = number;
    if (!place.children.length) place.replaceChildren(element("p", { class: "quiet" }, place.dataset.waits ?? "reading …"));
    try {
      const found = await asked(address, headers);
      if (place.dataset.asked === String(number)) place.replaceChildren(...make(found));
    } catch (error) {
      if (place.dataset.asked === String(number)) place.replaceChildren(element("p", { class: "trouble", role: "alert" }, error.message));
    }
  }

  // --- a step --------------------------------------------------------------------------------------------------------

  step(name) {
    const sub = this.picture.subs.find((one) => one.parts.some((part) => part.name === name));
    const part = sub?.parts.find((one) => one.name === name);
    if (!part) { this.begin(name, "It is in no sub-topology of this start."); return; }
    const told = named(part);
    const { figures, more } = this.begin(told.title, `${told.step} in sub-topology ${sub.id}`);
    const stores = element("span", {}, ...part.stores.map((store) => element("button", { type: "button", class: "link", onclick: () => this.show({ store }) }, store)));
    this.refreshed = (now) => {
      const one = now.nodes[name] ?? {};
      const [low, high] = one.stream_time ?? [];
      const time = low === undefined ? "" : low === high ? moment(low) : `${moment(low)}, in the furthest task ${span(high - low)} later`;
      const drops = Object.entries(one.drops ?? {}).map(([why, records]) => `${exact(records)} ${why}`).join(", ");
      figures.replaceChildren(facts([
        ["Records a second", rate(one.rate ?? 0)], ["Records so far", exact(one.records ?? 0)], ["Stream time", time],
        ["Left out", drops || "nothing"], ["Held back", one.held === undefined ? "" : exact(one.held)],
        ["Stores", part.stores.length ? stores : ""], ["Computes", part.computes ?? ""], ["Name", part.name], ["Written at", part.where ? part.where.split("/").at(-1) : ""],
      ]));
    };
    if (part.holds) this.again = () => this.into(more, `api/held/${encodeURIComponent(name)}?limit=100`, (found) => this.held(found, part.holds, tellsWhy(this.picture, name)));
    if (this.figures) this.update(this.figures);
  }

  held(found, holds, step) {
    const what = holds.windows ? "window" : "update";
    if (!found.rows.length) return [element("h3", {}, "Nothing is held back")];
    const waits = (row) => {
      const left = row.goes_at - row.stream_time;
      return row.stream_time < 0 ? "a first record" : left > 0 ? `${span(left)} more of stream time` : "the next record";
    };
    return [
      element("h3", {}, `${found.more ? "More than " : ""}${plural(found.count, what)} held back`),
      element("p", { class: "quiet" }, "What goes first is first. It goes when a record of its task has come that is that late."),
      table(["key", "value", "task", "goes at", "waits for"], found.rows.map((row) => [this.key(row.key, step, row.key), shown(row.value), row.task, moment(row.goes_at), waits(row)])),
    ];
  }

  // A key, which leads to what became of its records where a step can tell.
  key(one, step, window) {
    if (!step) return key(one);
    const isWindowed = one && typeof one === "object" && "start" in one && "end" in one;
    const back = this.chosen;
    return element("button", { type: "button", class: "link key", title: "Why it is so",
      onclick: () => this.show({ why: { step, key: isWindowed ? one.key : one, window: isWindowed ? one : window, back } }) }, key(one));
  }

  why({ step, key: chosen, window, back }) {
    const { figures, more } = this.begin(value(chosen), `why, in ${short(step)}`);
    const answer = element("div", {}), again = () => ask();
    const ask = (limit = 2000) => {
      answer.replaceChildren();
      answer.dataset.waits = "replaying the records of the program's topics …";
      this.into(answer, `api/why/${encodeURIComponent(step)}/${encodeURIComponent(asText(chosen))}?limit=${limit}`,
        (found) => explained(found, window, table, shown, ask), { "penstock-page": "1" });
    };
    figures.replaceChildren(element("p", { class: "actions" },
      element("button", { type: "button", class: "link", onclick: () => this.show(back) }, "Back"),
      element("button", { type: "button", class: "link", onclick: again }, "Replay again")));
    if (window) figures.append(facts([["Window", `${moment(window.start)} – ${moment(window.end)}`]]));
    more.replaceChildren(answer);
    ask();
  }

  // --- a dead letter -------------------------------------------------------------------------------------------------

  letter(one) {
    const { figures, more } = this.begin("Dead letter", one.exception || "a record that failed");
    figures.replaceChildren(facts([
      ["Error", one.error], ["Step", one.node], ["Function", one.function], ["Topic", one.topic], ["Partition", one.partition], ["Offset", one.offset],
      ["Key", shown(one.key)], ["Value", shown(one.value)], ["Time", moment(one.letter.timestamp)],
      ["Letter", `partition ${one.letter.partition}, offset ${one.letter.offset}`],
    ]));
    if (one.stack) more.replaceChildren(element("h3", {}, "Stack"), element("pre", { class: "stack" }, one.stack));
  }

  // --- a topic -------------------------------------------------------------------------------------------------------

  topic(name) {
    const isInternal = this.picture.internal.includes(name);
    const partitions = this.picture.partitions[name];
    const { figures, more } = this.begin(name, isInternal ? "repartition topic" : "topic");
    this.refreshed = (now) => {
      const one = now.topics[name], lag = (one?.lag ?? []).reduce((a, b) => a + b, 0);
      figures.replaceChildren(facts([
        ["Partitions", partitions ?? "not known"],
        ["Read", one ? exact(one.read) : ""], ["Behind", one ? (lag ? `${exact(lag)} records${one.lag_ms ? `, ${span(one.lag_ms)} of their time` : ""}` : "nothing") : ""],
        ["Wait in it", isInternal ? exact(now.waiting[name] ?? 0) : ""],
      ]));
    };
    if (isInternal) more.replaceChildren(element("p", { class: "quiet" }, "Records pass through within a commit, and are gone afterwards."));
    else {
      this.again = () => this.into(more, `api/topics/${encodeURIComponent(name)}?limit=50`, (found) => [
        element("h3", {}, `The newest of ${plural(found.records, "record")}`),
        found.rows.length ? table(["key", "value", "time", "partition", "offset"], found.rows.map((row) => [shown(row.key), shown(row.value), moment(row.timestamp), row.partition, row.offset]))
          : element("p", { class: "quiet" }, "It has no records yet."),
      ]);
    }
    if (this.figures) this.update(this.figures);
  }

  // --- a store -------------------------------------------------------------------------------------------------------

  store(name) {
    const format = this.picture.stores[name];
    const { figures, more } = this.begin(name, format ? format.kind.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase() : "store");
    this.refreshed = (now) => {
      const one = now.stores[name];
      figures.replaceChildren(facts([["Keys", format?.key ?? ""], ["Values", format?.value ?? ""], ["Rows", one ? `about ${exact(one.rows)}` : ""], ["Size", one ? `about ${size(one.bytes)}` : ""]]));
    };
    if (!format) {
      more.replaceChildren(element("p", { class: "quiet" }, "Its rows cannot be read from outside."));
    } else {
      const input = element("input", { type: "search", placeholder: `a key (${format.key})`, "aria-label": "Key", name: "key", autocomplete: "off", spellcheck: "false" });
      const step = tellsWhy(this.picture, ownerOf(this.picture, name));
      const rows = element("div"), address = `stores/${encodeURIComponent(name)}`;
      const look = (event) => {
        event?.preventDefault();
        const wanted = input.value;
        if (wanted) this.into(rows, `${address}/${encodeURIComponent(wanted)}`, (found) => this.rows(found.rows ?? [found.row], step));
        else this.into(rows, `${address}?limit=50`, (found) => this.page(found, address, step));
      };
      const form = element("form", { class: "ask", onsubmit: look }, input, element("button", { type: "submit" }, "Look up"));
      input.addEventListener("search", look);
      const hint = step ? element("p", { class: "quiet" }, "Choose a key to see which records its windows come from, and which were late.") : null;
      more.replaceChildren(...[element("h3", {}, "Rows"), form, hint, rows].filter(Boolean));
      this.again = () => { if (!rows.dataset.far) look(); };
    }
    if (this.figures) this.update(this.figures);
  }

  rows(found, step) {
    if (!found.length) return [element("p", { class: "quiet" }, "It is empty.")];
    const times = Object.keys(found[0]).filter((name) => name !== "key" && name !== "value");
    return [table(["key", "value", ...times.map((name) => name.replace("_", " "))],
      found.map((row) => [this.key(row.key, step, window_(row)), shown(row.value), ...times.map((name) => (row[name] === undefined || row[name] === null ? "" : moment(row[name])))]))];
  }

  page(found, address, step) {
    const shown = this.rows(found.rows, step);
    if (!found.cursor) return shown;
    const more = element("button", { type: "button" }, "More");
    const place = element("div", {}, more);
    more.addEventListener("click", () => {
      const rows = place.parentElement;
      rows.dataset.far = "yes"; // what is being read on stays
      this.into(place, `${address}?limit=50&cursor=${encodeURIComponent(found.cursor)}`, (next) => this.page(next, address, step));
    });
    return [...shown, place];
  }
}
