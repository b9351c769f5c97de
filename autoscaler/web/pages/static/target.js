// The charts of one target, and the instant that is pointed at.

import { drawn, legendOf } from "./charts.js";
import { refresh, released } from "./pages.js";
import { exact, localize, shown } from "./times.js";

const box = document.getElementById("charts");
const slider = document.getElementById("cursor");
const problem = document.getElementById("chart-problem");
const announcer = document.getElementById("announcer");
// An update puts another one in its place.
const panel = () => document.getElementById("explanation");
const HOVER_MILLISECONDS = 120;
const MOST_POINTS = 1500;
const SAME_SECONDS = 0.01;

const view = {};
let data = null;
let charts = null;
let pointed = null;
let waiting = 0;
let asking = new AbortController();

const instant = (value) => (typeof value === "number" ? value : Date.parse(value) / 1000);

// -- the address -----------------------------------------------------------------------------

// Takes what the server makes of the address.  `last` is the time up to now that Escape goes back to.
const read = ({ from, to, at, last }) => {
  view.from = Number(from);
  view.to = Number(to);
  view.pinned = at === undefined ? null : Number(at);
  view.last = last ?? history.state?.last ?? null;
};
read(box.dataset);

const address = (at, from = view.from, to = view.to) => {
  const query = new URLSearchParams({ from: exact(from), to: exact(to) });
  if (at !== null) query.set("at", exact(at));
  return `?${query.toString().replaceAll("%3A", ":")}`;
};

// Whether the panel still shows the instant of another address.
let isOfAnother = false;

// Shows another address in place: nothing scrolls, and Back returns.
const go = (query) => {
  isOfAnother = true;
  if (query !== location.search) history.pushState({ last: view.last }, "", query);
  return refresh();
};

// -- the explanation of an instant -----------------------------------------------------------

const say = (at) => {
  const state = panel().querySelector(".verdict")?.textContent.replace(/\s+/g, " ").trim() ?? "";
  const text = at === null ? "now" : `${shown(new Date(at * 1000))}: ${state}`;
  slider.setAttribute("aria-valuenow", String(Math.round(at ?? view.to)));
  slider.setAttribute("aria-valuetext", text);
  return text;
};

const put = (html) => {
  panel().innerHTML = html;
  localize(panel());
};

let present = view.pinned === null ? panel().innerHTML : null;

const explain = async (at) => {
  asking.abort();
  asking = new AbortController();
  panel().classList.add("waiting");
  try {
    const answer = await fetch(`${location.pathname}${address(at)}&part=explanation`, { signal: asking.signal });
    if (!answer.ok) throw new Error(`the daemon answers ${answer.status}`);
    put(await answer.text());
    say(at);
  } catch (error) {
    if (error.name === "AbortError") return;
    panel().replaceChildren(Object.assign(document.createElement("p"), {
      textContent: `This instant could not be explained: ${error.message}`,
    }));
  }
  panel().classList.remove("waiting");
};

// While an instant is looked at, the panel does not change by itself.
const follow = () => panel().toggleAttribute("data-live", pointed === null && view.pinned === null);

const point = (at, delay = HOVER_MILLISECONDS) => {
  pointed = at;
  follow();
  clearTimeout(waiting);
  waiting = setTimeout(() => explain(at), delay);
};

const forget = () => {
  clearTimeout(waiting);
  asking.abort();
  pointed = null;
  follow();
  panel().classList.remove("waiting");
};

const leave = () => {
  forget();
  if (view.pinned !== null || present === null) return explain(view.pinned);
  put(present);
  say(null);
};

// What is chosen stays in the address, and the chart no longer changes by itself.
const pin = (at) => {
  view.pinned = at;
  charts?.redraw();
  point(at, 0);
  go(address(at));
};

const letGo = () => {
  charts?.hideCursor();
  if (view.pinned === null) return leave();
  forget();
  view.pinned = null;
  charts?.redraw();
  go(view.last === null ? address(null) : `?last=${view.last}`);
};

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || (pointed === null && view.pinned === null)) return;
  letGo();
  event.preventDefault();
});

// -- links to an instant ---------------------------------------------------------------------

const followed = async (link) => {
  // The link to the present returns to the live view.
  if (!link.search.includes("at=")) return letGo();
  const words = panel().contains(link) ? link.textContent : null;
  forget();
  charts?.hideCursor();
  await go(link.search);
  announcer.textContent = say(view.pinned);
  document.getElementById("side").scrollTop = 0;
  const { top } = panel().getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) panel().scrollIntoView();
  if (words === null) return;
  const same = [...panel().querySelectorAll("a")].find((link) => link.textContent === words);
  (same ?? slider).focus({ preventScroll: true });
};

document.addEventListener("click", (event) => {
  const link = event.target.closest("#changes tbody a, #explanation a");
  if (link === null || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  followed(link);
});

addEventListener("popstate", () => {
  forget();
  charts?.hideCursor();
  isOfAnother = true;
  refresh();
});

// -- the keyboard ----------------------------------------------------------------------------

// Of many changes the table has the last ones only; the chart knows those that it shows.
const changes = () => {
  const listed = [...document.querySelectorAll("#changes tbody th a")]
    .map((link) => instant(new URL(link.href).searchParams.get("at")));
  const charted = data === null ? [] : [...data.marks.map((mark) => mark.time), ...data.shades.map((shade) => shade.begin)];
  return [...new Set([...listed, ...charted])]
    .filter((time) => time >= view.from && time <= view.to)
    .sort((first, other) => first - other);
};

const next = (times, from, step) =>
  step > 0 ? times.find((time) => time > from + 0.001) : times.findLast((time) => time < from - 0.001);

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
  } else {
    const at = target(event);
    if (at === null) return;
    const within = Math.min(Math.max(at, view.from), view.to);
    charts?.moveTo(within);
    point(within, 0);
  }
  event.preventDefault();
});

// -- drawing ---------------------------------------------------------------------------------

const user = {
  pinned: () => view.pinned,
  point,
  leave,
  pin,
  look: (from, to) => {
    view.last = null; // Escape stays at the time that was chosen so.
    go(address(view.pinned, from, to));
  },
};

// The pointer stays at the same instant.
const draw = async () => {
  document.getElementById("legend").replaceChildren(...(data === null ? [] : legendOf(data)));
  if (data === null || charts?.update(data) !== true) {
    charts?.destroy();
    charts = data === null ? null : drawn(data, view, user);
  }
  await null; // A chart draws when the running script has ended.
  if (pointed !== null) charts?.moveTo(pointed);
};

const parts = ["cursor", "legend", "chart-help", "metrics"].map((id) => document.getElementById(id));

// Shows the chart if there is one, and what is wrong with it.
const show = (sentence = "") => {
  problem.textContent = sentence;
  problem.hidden = sentence === "";
  for (const part of parts) part.hidden = data === null;
};

let loads = 0;

const load = async () => {
  loads += 1;
  const own = loads;
  const points = Math.min(MOST_POINTS, Math.max(200, Math.round(box.clientWidth || 800)));
  const query = new URLSearchParams({ from: exact(view.from), to: exact(view.to), points });
  try {
    const answer = await fetch(`${box.dataset.chart}?${query}`, { headers: { Accept: "application/json" } });
    const read = await answer.json();
    await released();
    if (own !== loads) return;
    if (answer.status === 404) {
      data = null;
      await draw();
      return show("Nothing is recorded in this time, so there is no chart.");
    }
    if (!answer.ok) throw new Error(read.detail ?? `the daemon answers ${answer.status}`);
    data = {
      ...read,
      times: read.times.map(instant),
      shades: read.shades.map((shade) => ({ ...shade, begin: instant(shade.begin), end: instant(shade.end) })),
      marks: read.marks.map((mark) => ({ ...mark, time: instant(mark.time) })),
    };
    show();
    await draw();
  } catch (error) {
    show(`The chart could not be drawn: ${error.message}`);
  }
};

box.hidden = false;
// An instant alone is explained in the time that was up to now when it was asked for.
if (view.pinned !== null && box.dataset.last !== undefined) {
  history.replaceState({ last: view.last }, "", address(view.pinned));
}
await load();
if (view.pinned !== null) say(view.pinned);

document.addEventListener("themechange", () => {
  charts?.destroy();
  charts = null;
  draw();
});
document.addEventListener("updated", ({ detail: page }) => {
  const fresh = page.getElementById("charts");
  if (fresh === null) return;
  const { from, to } = view;
  read(fresh.dataset);
  slider.setAttribute("aria-valuemin", String(Math.round(view.from)));
  slider.setAttribute("aria-valuemax", String(Math.round(view.to)));
  // It is no longer there if it has been put into this page.
  const explained = page.getElementById("explanation") ?? panel();
  present = view.pinned === null ? explained.innerHTML : null;
  if (isOfAnother && pointed === null && explained !== panel()) put(explained.innerHTML);
  isOfAnother = false;
  if (pointed === null) say(view.pinned);
  follow();
  if (Math.abs(view.from - from) + Math.abs(view.to - to) < SAME_SECONDS) charts?.redraw();
  else load();
});
let width = box.clientWidth;
new ResizeObserver(() => {
  if (box.clientWidth === width) return;
  width = box.clientWidth;
  charts?.fit();
}).observe(box);
