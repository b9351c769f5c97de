// The charts of one target, and the instant that is pointed at.

import { drawn, legendOf } from "./charts.js";
import { exact, localize, shown } from "./times.js";

const box = document.getElementById("charts");
const slider = document.getElementById("cursor");
const panel = document.getElementById("explanation");
const problem = document.getElementById("chart-problem");
const HOVER_MILLISECONDS = 120;
const MOST_POINTS = 1500;

const view = {
  from: Number(box.dataset.from),
  to: Number(box.dataset.to),
  pinned: box.dataset.at === undefined ? null : Number(box.dataset.at),
};
let data = null;
let charts = [];
let pointed = null;
let present = panel.innerHTML;
let waiting = 0;
let asking = new AbortController();

const instant = (value) => (typeof value === "number" ? value : Date.parse(value) / 1000);

// -- the address -----------------------------------------------------------------------------

const address = (at, from = view.from, to = view.to) => {
  const query = new URLSearchParams({ from: exact(from), to: exact(to) });
  if (at !== null) query.set("at", exact(at));
  return `${location.pathname}?${query.toString().replaceAll("%3A", ":")}`;
};

const isLive = () => document.body.dataset.refresh !== undefined && view.pinned === null;

// -- the explanation of an instant -----------------------------------------------------------

const say = (at) => {
  const state = panel.querySelector(".verdict")?.textContent.replace(/\s+/g, " ").trim() ?? "";
  slider.setAttribute("aria-valuenow", String(Math.round(at)));
  slider.setAttribute("aria-valuetext", `${shown(new Date(at * 1000))}: ${state}`);
};

const put = (html) => {
  panel.innerHTML = html;
  localize(panel);
};

const explain = async (at) => {
  asking.abort();
  asking = new AbortController();
  panel.classList.add("waiting");
  try {
    const answer = await fetch(`${address(at)}&part=explanation`, { signal: asking.signal });
    if (!answer.ok) throw new Error(`the daemon answers ${answer.status}`);
    put(await answer.text());
    say(at);
  } catch (error) {
    if (error.name === "AbortError") return;
    panel.replaceChildren(Object.assign(document.createElement("p"), {
      textContent: `This instant could not be explained: ${error.message}`,
    }));
  }
  panel.classList.remove("waiting");
};

// While an instant is looked at, the panel does not change by itself.
const follow = () => panel.toggleAttribute("data-live", pointed === null && view.pinned === null);

const point = (at, delay = HOVER_MILLISECONDS) => {
  pointed = at;
  follow();
  clearTimeout(waiting);
  waiting = setTimeout(() => explain(at), delay);
};

const leave = () => {
  clearTimeout(waiting);
  asking.abort();
  pointed = null;
  follow();
  panel.classList.remove("waiting");
  if (view.pinned !== null) explain(view.pinned);
  else put(present);
};

// What is chosen stays in the address, and the page no longer changes by itself.
const pin = (at) => {
  view.pinned = at;
  history.replaceState(null, "", address(at));
  for (const chart of charts) chart.redraw(false);
  point(at, 0);
};

const unpin = () => {
  if (view.pinned === null) return;
  view.pinned = null;
  history.replaceState(null, "", address(null));
  for (const chart of charts) chart.redraw(false);
  leave();
};

// -- the keyboard ----------------------------------------------------------------------------

// Of many changes the table has the last ones only; the chart knows those that it shows.
const changes = () => {
  const listed = [...document.querySelectorAll("#changes tbody th a")]
    .map((link) => instant(new URL(link.href).searchParams.get("at")));
  const charted = data === null ? [] : [...data.marks.map((one) => one.time), ...data.shades.map((one) => one.begin)];
  return [...new Set([...listed, ...charted])]
    .filter((time) => time >= view.from && time <= view.to)
    .sort((one, other) => one - other);
};

const next = (times, from, step) =>
  step > 0 ? times.find((one) => one > from + 0.001) : times.findLast((one) => one < from - 0.001);

const target = (event) => {
  const from = pointed ?? view.pinned ?? view.to;
  const part = (view.to - view.from) / 10;
  const points = data === null ? [] : data.times;
  const stops = changes();
  switch (event.key) {
    case "ArrowRight": case "ArrowUp":
      return next(event.shiftKey || stops.length === 0 ? points : stops, from, 1) ?? view.to;
    case "ArrowLeft": case "ArrowDown":
      return next(event.shiftKey || stops.length === 0 ? points : stops, from, -1) ?? view.from;
    case "PageUp": return from + part;
    case "PageDown": return from - part;
    case "Home": return view.from;
    case "End": return view.to;
    default: return null;
  }
};

slider.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") {
    pin(pointed ?? view.pinned ?? view.to);
  } else if (event.key === "Escape") {
    unpin();
  } else {
    const at = target(event);
    if (at === null) return;
    const within = Math.min(Math.max(at, view.from), view.to);
    for (const chart of charts) chart.moveTo(within);
    point(within, 0);
  }
  event.preventDefault();
});

// -- drawing ---------------------------------------------------------------------------------

const draw = () => {
  for (const chart of charts) chart.destroy();
  charts = [];
  if (data === null) return;
  charts = drawn(data, view, {
    pinned: () => view.pinned,
    point,
    leave,
    pin,
    look: (from, to) => location.assign(address(view.pinned, from, to)),
  });
  document.getElementById("legend").replaceChildren(...legendOf(data));
};

const parts = ["cursor", "legend", "chart-help", "metrics"].map((id) => document.getElementById(id));

// Shows the chart if there is one, and what is wrong with it.
const show = (sentence = "") => {
  problem.textContent = sentence;
  problem.hidden = sentence === "";
  for (const one of parts) one.hidden = data === null;
};

const load = async () => {
  const points = Math.min(MOST_POINTS, Math.max(200, Math.round(box.clientWidth || 800)));
  const query = new URLSearchParams({ from: exact(view.from), to: exact(view.to), points });
  try {
    const answer = await fetch(`${box.dataset.chart}?${query}`, { headers: { Accept: "application/json" } });
    if (answer.status === 404) {
      data = null;
      return show("Nothing is recorded in this time, so there is no chart.");
    }
    const read = await answer.json();
    if (!answer.ok) throw new Error(read.detail ?? `the daemon answers ${answer.status}`);
    data = {
      ...read,
      times: read.times.map(instant),
      shades: read.shades.map((one) => ({ ...one, begin: instant(one.begin), end: instant(one.end) })),
      marks: read.marks.map((one) => ({ ...one, time: instant(one.time) })),
    };
    show();
    draw();
  } catch (error) {
    show(`The chart could not be drawn: ${error.message}`);
  }
};

box.hidden = false;
await load();
if (view.pinned !== null) say(view.pinned);

document.addEventListener("themechange", draw);
document.addEventListener("updated", (event) => {
  if (!isLive()) return;
  const fresh = event.detail.getElementById("charts");
  view.from = Number(fresh.dataset.from);
  view.to = Number(fresh.dataset.to);
  slider.setAttribute("aria-valuemin", String(Math.round(view.from)));
  slider.setAttribute("aria-valuemax", String(Math.round(view.to)));
  const now = event.detail.getElementById("explanation");
  if (now !== null) present = now.innerHTML;
  load();
});
let width = box.clientWidth;
new ResizeObserver(() => {
  if (box.clientWidth === width) return;
  width = box.clientWidth;
  for (const chart of charts) chart.fit();
}).observe(box);
