// The page: takes the picture once for each start, and figures as they come.
import { Charts } from "./charts.js";
import { Graph } from "./graph.js";
import { Panel } from "./panel.js";
import { count, counted, element, exact, moment, parse, plural, put, rate, short, size, span } from "./text.js";

const place = (id) => document.getElementById(id);
const panel = new Panel(place("panel"), place("panel-title"), place("panel-body"), (node) => graph.select(node));
const graph = new Graph(place("graph"), (chosen) => panel.show(chosen));
const charts = new Charts(place("plots"), place("spans"));
let picture = null, figures = null, asking = false, events = null;

// --- what comes -----------------------------------------------------------------------------------------------------

async function takePicture() {
  if (asking) return;
  asking = true;
  try {
    const answer = await fetch("api/picture");
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    graph.draw(found);
    document.title = `${found.application} · Penstock`;
    put("application", found.application);
    panel.picture = picture = found;
    trouble("");
    if (figures) show(figures);
  } catch (error) {
    trouble(error.message);
  } finally {
    asking = false;
  }
}

// A browser has six connections for a server. A page that was left may be kept with its own, and so may one behind
// others: the seventh would wait for a minute.
function listen() {
  if (events || document.hidden) return;
  events = new EventSource("api/events");
  events.addEventListener("figures", (event) => show(counted(event.data)));
  events.addEventListener("trouble", (event) => trouble(JSON.parse(event.data).error));
  events.addEventListener("error", () => status("lost", "the page's server does not answer; trying again"));
}

function rest() {
  events?.close();
  events = null;
}

addEventListener("pagehide", rest);
addEventListener("pageshow", listen);
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));

function trouble(message) {
  const told = place("trouble");
  told.hidden = !message;
  put(told, message);
  if (message) status("lost", "nothing to show yet");
}

function show(found) {
  figures = found;
  if (!place("trouble").hidden) trouble("");
  if (!picture || picture.start !== found.start) return takePicture();
  graph.update(found);
  panel.update(found);
  tiles(found);
  queries(found);
  topics(found);
  stores(found);
  commits(found);
  losses(found);
  failures(found);
  letters(found);
  applications();
  charts.look();
  return undefined;
}

// --- in short -------------------------------------------------------------------------------------------------------

function status(kind, text) {
  place("status").className = `status ${kind}`;
  put(place("status").lastElementChild, text);
}

function tiles(found) {
  const quiet = Math.max(found.now - found.at, 0);
  const every = Object.values(found.topics);
  const lag = every.reduce((sum, one) => sum + (one.lag ?? []).reduce((a, b) => a + b, 0), 0);
  const late = Math.max(0, ...every.map((one) => one.lag_ms ?? 0));
  if (quiet < 5000) status("live", lag ? "processing" : "up to date");
  else status(lag ? "lost" : "idle", lag ? `no commit for ${span(quiet)}, and records wait` : `up to date, idle for ${span(quiet)}`);
  put("started", `started ${moment(found.started_at)} UTC · ${plural(found.tasks, "task")}${machines(found.places)}`);
  put("rate", rate(found.rate));
  place("rate").title = `${exact(found.rate)} a second, over the last ten seconds`;
  put("rate-more", `${exact(every.reduce((sum, one) => sum + one.read, 0))} read so far`);
  pulse(found);
  put("lag", count(lag));
  place("lag").title = `${exact(lag)} records`;
  place("lag").classList.toggle("wait", lag > 0);
  put("lag-more", lag ? `records, or ${span(late)} of their time` : "records: all are read");
  put("commit", exact(found.commit));
  put("commit-more", quiet < 1500 ? "just now" : `${span(quiet)} ago`);
  const sizes = Object.values(found.stores);
  put("state", size(sizes.reduce((sum, one) => sum + one.bytes, 0)));
  put("state-more", `about ${plural(sizes.reduce((sum, one) => sum + one.rows, 0), "row")} in ${plural(sizes.length, "store")}`);
  const lost = found.losses.reduce((sum, one) => sum + one.records, 0);
  put("lost", count(lost));
  place("lost").title = `${exact(lost)} records`;
  place("lost").classList.toggle("bad", lost > 0);
  put("lost-more", lost ? `most ${found.losses[0].done}` : "nothing was dropped or skipped");
}

function machines({ slots, moved_total }) {
  if (!slots.length) return "";
  place("started").title = slots.map((one, slot) => `slot ${slot}: ${plural(one.tasks ?? 0, "task")} at executor ${one.executor} on ${one.host}${one.copy ? `, a copy on ${one.copy}` : ""}${one.shared_by != null ? `; it has not come, and slot ${one.shared_by} does its work` : ""}`).join("\n");
  const come = slots.filter((one) => one.shared_by == null).length;
  const hosts = new Set(slots.map((one) => one.host)).size;
  return ` in ${come < slots.length ? `${come} of ` : ""}${plural(slots.length, "slot")} on ${plural(hosts, "machine")}${moved_total ? `, ${exact(moved_total)} moved` : ""}`;
}

const SECONDS = 60;

function pulse(found) {
  const bars = new Array(SECONDS).fill(0);
  for (const one of found.commits) {
    const ago = Math.floor((found.now - one.at) / 1000);
    if (ago >= 0 && ago < SECONDS) bars[SECONDS - 1 - ago] += one.records;
  }
  const most = Math.max(...bars, 1), holder = place("pulse");
  if (holder.children.length !== SECONDS) holder.replaceChildren(...bars.map(() => element("i")));
  bars.forEach((records, second) => { holder.children[second].style.height = records ? `${8 + 92 * (records / most)}%` : "2px"; });
}

// --- lists ----------------------------------------------------------------------------------------------------------

const made = new Map();

function rows(id, names, make, update, empty) {
  const holder = place(id);
  const key = names.join("\n");
  if (holder.dataset.rows !== key || !holder.children.length) {
    holder.dataset.rows = key;
    made.set(id, new Map(names.map((name) => [name, make(name)])));
    holder.replaceChildren(...(names.length ? [...made.get(id).values()].map((one) => one.row) : [element("p", { class: "quiet empty" }, empty)]));
  }
  for (const [name, one] of made.get(id)) update(name, one);
}

function queries(found) {
  const names = found.children.map((one) => `${one.topic}|${one.table}`);
  place("queries-card").hidden = !names.length;
  rows("queries", names, (name) => {
    const told = element("span", { class: "rate" }), why = element("span", { class: "quiet why" });
    const one = found.children[names.indexOf(name)];
    const way = one.table ? `${one.topic} → ${one.table}` : `DataFrame ${one.name} → ${one.topic}`;
    const row = element("button", { type: "button", class: "row", onclick: () => panel.show({ topic: one.topic }) },
      element("span", { class: "title" }, way), told, why);
    return { row, told, why };
  }, (name, { told, why }) => {
    const one = found.children[names.indexOf(name)];
    told.classList.toggle("bad", one.state === "failed");
    put(told, `${one.state} · ${plural(one.rows, "row")}${one.batch < 0 ? "" : ` · batch ${exact(one.batch)}`}`);
    put(why, one.error);
  }, "");
  if (found.children.some((one) => one.state === "failed")) status("lost", "a query of Spark has failed");
}

function topics(found) {
  const written = picture.subs.flatMap((sub) => sub.parts.filter((part) => part.kind === "sink").flatMap((part) => part.topics));
  const names = [...new Set([...Object.keys(found.topics), ...written])];
  rows("topics", names, (name) => {
    const told = element("span", { class: "rate" }), cells = element("span", { class: "cells" });
    const row = element("button", { type: "button", class: "row", onclick: () => panel.show({ topic: name }) },
      element("span", { class: "title" }, name), told, cells);
    return { row, told, cells };
  }, (name, { told, cells }) => {
    const one = found.topics[name];
    if (!one) {
      put(told, picture.internal.includes(name) ? (found.waiting[name] ? `${count(found.waiting[name])} wait` : "internal") : "written");
      return;
    }
    const lag = one.lag ?? [], all = lag.reduce((a, b) => a + b, 0);
    put(told, one.error ? "cannot be read" : all ? `${count(all)} behind${one.lag_ms ? ` · ${span(one.lag_ms)}` : ""}` : `${count(one.read)} read`);
    if (cells.children.length !== lag.length) cells.replaceChildren(...lag.map(() => element("i")));
    lag.forEach((records, partition) => {
      const cell = cells.children[partition];
      cell.className = records ? `lag-${Math.min(Math.ceil(Math.log10(records + 1)), 5)}` : "";
      cell.title = `partition ${partition}: ${records ? `${exact(records)} records behind` : "all read"}`;
    });
  }, "The program reads no topics.");
}

function stores(found) {
  const names = [...new Set([...Object.keys(picture.stores), ...Object.keys(found.stores)])];
  rows("stores", names, (name) => {
    const told = element("span", { class: "rate" });
    const format = picture.stores[name];
    const kind = format ? `${format.key} → ${format.value}` : "";
    const row = element("button", { type: "button", class: "row", onclick: () => panel.show({ store: name }) },
      element("span", { class: "title" }, short(name)), told, element("span", { class: "quiet types" }, kind));
    return { row, told };
  }, (name, { told }) => {
    const one = found.stores[name];
    put(told, one ? `${plural(one.rows, "row")} · ${size(one.bytes)}` : "");
  }, "The program keeps no state.");
}

let newest = -1;

function commits(found) {
  const last = found.commits.at(-1)?.commit ?? -1;
  if (last === newest) return;
  const fresh = newest >= 0;
  const some = found.commits.slice(-12).reverse(), most = Math.max(...some.map((one) => one.records), 1);
  place("commits").replaceChildren(...some.map((one) => {
    const bar = element("i");
    bar.style.width = `${(100 * one.records) / most}%`;
    return element("li", { class: fresh && one.commit > newest ? "fresh" : "" },
      element("b", {}, exact(one.commit)), element("span", { class: "quiet" }, moment(one.at).slice(11, 23)),
      element("span", { class: "bar" }, bar), element("span", { class: "rate" }, plural(one.records, "record")));
  }));
  newest = last;
}

function losses(found) {
  lost("losses", found.losses.filter((one) => !hasFailed(one)), "No record was left out.");
}

function lost(id, some, empty) {
  const names = some.map((one) => `${one.node}|${one.reason}|${one.metric}`);
  rows(id, names, (name) => {
    const told = element("span", { class: "rate bad" }), [node, reason] = name.split("|");
    const one = some[names.indexOf(name)];
    const row = element("button", { type: "button", class: "row", onclick: () => panel.show({ node }) },
      element("span", { class: "title" }, `${one.done} by ${short(node)}`), told, element("span", { class: "quiet why" }, `${reason}: ${one.why}`));
    return { row, told };
  }, (name, { told }) => put(told, exact(some[names.indexOf(name)].records)), empty);
}

// --- records that failed --------------------------------------------------------------------------------------------

const hasFailed = (one) => ["skipped-records-total", "dead-letter-records-total"].includes(one.metric);
let lettersOf = "";

function failures(found) {
  const more = picture.dead_letters.length ? "" : " Set on_error to dead_letter:TOPIC to keep those that fail.";
  lost("failures", found.losses.filter(hasFailed), `No record has failed.${more}`);
}

// Dead letters are asked for when one more has been counted.
async function letters(found) {
  const topic = picture.dead_letters[0], some = found.losses.filter(hasFailed).map((one) => String(one.records));
  const now = `${found.start} ${some.join(" ")}`;
  if (!topic || now === lettersOf) return;
  lettersOf = now;
  try {
    const answer = await fetch("api/letters?limit=10");
    const told = parse(await answer.text());
    if (!answer.ok) throw new Error(told.error);
    place("letters").replaceChildren(...told.rows.map(letter),
      told.rows.length ? element("p", { class: "quiet empty" }, `The newest of ${plural(told.records, "record")} in `, element("button", { type: "button", class: "link", onclick: () => panel.show({ topic }) }, topic)) : "");
  } catch (error) {
    place("letters").replaceChildren(element("p", { class: "trouble" }, error.message));
  }
}

function letter(one) {
  return element("button", { type: "button", class: "row", onclick: () => panel.show({ letter: one }) },
    element("span", { class: "title" }, one.error || one.exception || "no error is given"), element("span", { class: "rate" }, moment(one.letter.timestamp)),
    element("span", { class: "quiet why" }, `in ${short(one.node) || "a step that is not named"}, from ${one.topic || "?"}, partition ${one.partition}, offset ${one.offset}`));
}

// --- all applications of the log ------------------------------------------------------------------------------------

let applicationsAt = 0;

async function applications() {
  if (Date.now() - applicationsAt < 5000) return;
  applicationsAt = Date.now();
  const answer = await fetch("api/applications").catch(() => null);
  if (!answer?.ok) return;
  const found = await answer.json();
  place("applications-card").hidden = found.length < 2;
  rows("applications", found.map((one) => `${one.name}|${one.address}`), (name) => {
    const one = found.find((other) => `${other.name}|${other.address}` === name);
    const told = element("span", { class: "rate" }), why = element("span", { class: "quiet why" }), dot = element("i", { class: "dot" });
    const title = element("span", { class: "title" }, dot, one.name);
    const row = one.is_own || !one.address ? element("div", { class: "row" }, title, told, why) : element("a", { class: "row", href: one.address }, title, told, why);
    return { row, told, why, dot };
  }, (name, { told, why, dot }) => {
    const one = found.find((other) => `${other.name}|${other.address}` === name);
    const is = one.age_ms < 10_000 ? "live" : one.status === "ok" ? "" : "lost";
    dot.className = `dot ${one.status === "ok" ? is : "lost"}`;
    const state = one.status === "stalled" ? `stalled for ${span(one.stalled_ms)}` : one.status;
    put(told, one.error ? "cannot be read" : `${state}${one.behind ? ` · ${count(one.behind)} behind` : ""}`);
    const page = one.is_own ? "this page" : one.address ? "" : `penstock ui ${one.name} shows it`;
    put(why, one.error ?? [`commit ${exact(one.commit)}, ${one.age_ms < 1500 ? "just now" : `${span(one.age_ms)} ago`}`, page].filter(Boolean).join(" · "));
  }, "");
}

// --- light and dark -------------------------------------------------------------------------------------------------

place("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try { localStorage.setItem("penstock-theme", root.dataset.theme); } catch { /* private windows keep nothing */ }
});
place("panel-close").addEventListener("click", () => panel.close());
document.addEventListener("keydown", (event) => { if (event.key === "Escape") panel.close(); });

takePicture();
listen();
