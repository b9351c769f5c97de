// Draws the charts of a target and its metrics with uPlot.

/* global uPlot */

import { date, timeOfDay } from "./times.js";

const KEY = "target";
const METRIC_COLOURS = 5;
const SMALLEST_DRAG = 8;

const SHADES = {
  failing: { colour: "--shade-failing", word: "failing" },
  fallback: { colour: "--shade-fallback", word: "fallback" },
  paused: { colour: "--shade-paused", word: "paused" },
  idle: { colour: "--shade-idle", word: "idle" },
  breaker: { colour: "--shade-held", word: "held by the breaker" },
  queryHold: { colour: "--shade-held", word: "no scale-down, by holdScaleDownQuery" },
  contested: { colour: "--shade-failing", word: "contested" },
  controlled: { colour: "--shade-paused", word: "controlled" },
  standby: { colour: "--shade-paused", word: "standby" },
  disabled: { colour: "--shade-paused", word: "disabled" },
  removed: { colour: "--shade-lapse", word: "not configured" },
  lapse: { colour: "--shade-lapse", word: "nothing recorded" },
  before: { colour: "--shade-outside", word: "before the record" },
  future: { colour: "--shade-outside", word: "after now" },
};
const HATCHED = ["lapse", "removed"];
const PLAIN = ["before", "future"];
const wordsOf = (kind) => kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
const shadeOf = (kind) => SHADES[kind] ?? { colour: "--shade-held", word: wordsOf(kind) };

// A custom property returns its text; a colour in use returns its computed value.
export const colours = () => {
  const probe = document.createElement("span");
  document.body.append(probe);
  const found = new Map();
  const of = (name) => {
    if (!found.has(name)) {
      probe.style.color = `var(${name})`;
      found.set(name, getComputedStyle(probe).color);
    }
    return found.get(name);
  };
  return { of, end: () => probe.remove() };
};

export const faint = (colour, share) => {
  const parts = colour.match(/[\d.]+/g);
  return parts === null ? colour : `rgba(${parts.slice(0, 3).join(",")},${share})`;
};

// -- numbers and times -----------------------------------------------------------------------

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL = ["", "k", "M", "G", "T"];

const scaled = (value, step, prefixes) => {
  let index = 0;
  let rest = value;
  while (Math.abs(rest) >= step && index < prefixes.length - 1) { rest /= step; index += 1; }
  return `${Number(rest.toPrecision(4))}${prefixes[index]}`;
};

export const quantity = (value, unit) => {
  if (value === null || value === undefined) return "–";
  if (unit === "%") return `${Number(value.toPrecision(4))}%`;
  const bytes = unit.startsWith("bytes");
  const text = bytes ? scaled(value, 1024, BINARY) : scaled(value, 1000, DECIMAL);
  const rest = bytes ? unit.slice("bytes".length).trim() : unit;
  return text + (rest ? ` ${rest}` : "");
};

const timeTicks = (_, splits, __, ___, step) => splits.map((seconds, index) => {
  const at = new Date(seconds * 1000);
  const clock = timeOfDay(at);
  const isNewDay = index > 0 && date(at) !== date(new Date(splits[index - 1] * 1000));
  if (step >= 86400 || clock === "00:00:00") return date(at).slice(5);
  return (isNewDay ? `${date(at).slice(5)} ` : "") + (step < 60 ? clock : clock.slice(0, 5));
});

// -- shades and marks ------------------------------------------------------------------------

const hatch = (context, colour) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(-2, 6); pen.lineTo(6, -2);
  pen.moveTo(2, 10); pen.lineTo(10, 2);
  pen.stroke();
  return context.createPattern(tile, "repeat");
};

const drawShades = (chart, shades, colour) => {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const shade of shades) {
    const left = chart.valToPos(shade.begin, "x", true);
    const width = Math.max(1, chart.valToPos(shade.end, "x", true) - left);
    const own = colour(shadeOf(shade.kind).colour);
    ctx.fillStyle = HATCHED.includes(shade.kind) ? hatch(ctx, faint(own, 0.3)) : faint(own, 0.13);
    ctx.fillRect(left, bbox.top, width, bbox.height);
    if (HATCHED.includes(shade.kind) || PLAIN.includes(shade.kind)) continue;
    ctx.fillStyle = faint(own, 0.8);
    ctx.fillRect(left, bbox.top, width, 3 * devicePixelRatio);
  }
  ctx.restore();
};

export const drawMarks = (chart, marks, colour) => {
  const { ctx, bbox } = chart;
  const size = 5 * devicePixelRatio;
  ctx.save();
  for (const mark of marks) {
    const x = chart.valToPos(mark.time, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const y = chart.valToPos(mark.after, "y", true);
    const foreign = mark.kind === "foreign";
    ctx.fillStyle = colour(foreign ? "--foreign" : "--ours");
    ctx.strokeStyle = colour("--surface");
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    if (foreign) {
      ctx.moveTo(x, y - size * 1.3); ctx.lineTo(x + size * 1.3, y);
      ctx.lineTo(x, y + size * 1.3); ctx.lineTo(x - size * 1.3, y);
    } else {
      const up = mark.after > mark.before ? 1 : -1;
      ctx.moveTo(x, y - up * size); ctx.lineTo(x + size, y + up * size); ctx.lineTo(x - size, y + up * size);
    }
    ctx.closePath();
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
};

const drawPin = (chart, at, colour) => {
  if (at === null) return;
  const { ctx, bbox } = chart;
  const x = Math.round(chart.valToPos(at, "x", true));
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
};

// -- the charts ------------------------------------------------------------------------------

const stepped = () => uPlot.paths.stepped({ align: 1 });

export const line = (label, stroke, options = {}) =>
  ({ label, stroke, width: 1.5, paths: stepped(), points: { show: false }, spanGaps: false, ...options });

export const edge = (label) => line(label, "transparent", { width: 0 });

const withUser = (chart, user) => {
  let isDown = false;
  let moving = false;
  const over = chart.over;
  const instantAt = (x) => chart.posToVal(x, "x");
  const pointAt = (event) => {
    const { left, width } = over.getBoundingClientRect();
    const x = Math.min(Math.max(event.clientX - left, 0), width);
    return { x, at: instantAt(x) };
  };
  over.addEventListener("pointermove", (event) => {
    const { x, at } = pointAt(event);
    if (event.pointerType === "touch") chart.setCursor({ left: x, top: 10 });
    user.point(at);
  });
  over.addEventListener("pointerdown", () => { isDown = true; });
  over.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") user.leave();
  });
  over.addEventListener("click", (event) => {
    if (!moving) user.pin(pointAt(event).at);
    moving = isDown = false;
  });
  // All charts select together; the chart under the pointer decides the period.
  return ({ left, width }) => {
    moving = isDown && width >= SMALLEST_DRAG;
    isDown = false;
    if (moving) user.look(instantAt(left), instantAt(left + width));
  };
};

// `kept.data` is what is drawn; `columnsOf` are the lines that a chart has of it.
export const made = (element, height, view, kept, columnsOf, series, options, user, look) => {
  let ended = () => {};
  const lines = () => [kept.data.times, ...columnsOf(kept.data)];
  const axis = {
    stroke: look("--dim"), grid: { stroke: faint(look("--dim"), 0.18), width: 1 },
    ticks: { stroke: faint(look("--dim"), 0.3), width: 1 },
  };
  const chart = new uPlot({
    width: element.clientWidth, height,
    legend: { show: false },
    scales: {
      x: { time: true, range: () => [view.from, view.to] },
      y: { range: (_, least, most) => [Math.min(0, least ?? 0), Math.max(options.least ?? 0, (most ?? 0) * 1.08) || 1] },
    },
    axes: [
      { ...axis, values: timeTicks, space: 70, size: 32 },
      { ...axis, size: 56, incrs: options.incrs, values: (_, splits) => splits.map(options.write) },
    ],
    cursor: { sync: { key: options.sync ?? KEY }, drag: { x: true, y: false, setScale: false }, y: false, points: { show: options.points ?? true } },
    series: [{}, ...series],
    bands: options.bands ?? [],
    hooks: {
      drawClear: [(self) => drawShades(self, kept.data.shades, look)],
      draw: [(self) => { options.draw?.(self); drawPin(self, user.pinned(), look("--text")); }],
      setSelect: [(self) => {
        if (self.select.width > 0) ended({ ...self.select });
        self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      setCursor: [(self) => options.cursor?.(self)],
    },
  }, lines(), element);
  ended = withUser(chart, user);
  return {
    destroy: () => chart.destroy(),
    redraw: () => chart.redraw(false),
    update: () => chart.setData(lines()),
    fit: () => chart.setSize({ width: element.clientWidth, height }),
    moveTo: (at) => chart.setCursor({ left: chart.valToPos(at, "x"), top: 10 }),
    hideCursor: () => chart.setCursor({ left: -10, top: -10 }),
  };
};

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000, 1000000];

const showValues = (index) => {
  for (const label of document.querySelectorAll("#legend b")) label.textContent = label.values?.[index] ?? "";
};

const mainChart = (kept, view, user, look) => {
  const columns = (data) => [
    data.minimum, data.maximum, ...data.metrics.map((metric) => metric.proposal), data.desired, data.current,
  ];
  const series = [
    line("minimum", look("--bounds"), { width: 1, dash: [2, 3] }),
    line("maximum", look("--bounds"), { width: 1, dash: [2, 3] }),
    ...kept.data.metrics.map((metric, index) => line(metric.name, look(`--metric-${index % METRIC_COLOURS}`), { width: 1.25, dash: [6, 3] })),
    line("desired", look("--desired"), { dash: [4, 4], width: 2 }),
    line("current", look("--current"), { width: 2.25 }),
  ];
  return made(document.getElementById("chart"), 280, view, kept, columns, series, {
    least: 1,
    incrs: WHOLE,
    write: (value) => scaled(value, 10000, DECIMAL),
    points: false,
    draw: (self) => drawMarks(self, kept.data.marks, look),
    cursor: (self) => showValues(self.cursor.idx),
  }, user, look);
};

const hasBand = ({ times }, metric) => [metric.low, metric.high].every((line) => line?.length === times.length);

const metricChart = (place, index, kept, view, user, look) => {
  const own = () => kept.data.metrics[index];
  const { name: title, unit } = own();
  const heading = document.createElement("h3");
  const name = document.createElement("bdi");
  name.textContent = title;
  const value = document.createElement("span");
  value.className = "dim";
  const written = (number) => quantity(number, unit);
  const tell = (at) => {
    const now = at === null || at === undefined ? null : own().value[at] ?? null;
    value.textContent = ` ${now === null ? "" : `${written(now)}, `}target ${written(own().target)}`;
  };
  heading.append(name, value);
  tell(null);
  const element = document.createElement("div");
  place.append(heading, element);
  const colour = look(`--metric-${index % METRIC_COLOURS}`);
  const banded = hasBand(kept.data, own());
  const columns = () => [own().value, own().targets, ...(banded ? [own().high, own().low] : [])];
  const series = [
    line("value", colour), line("target", look("--bounds"), { dash: [4, 3], width: 1.25 }),
    ...(banded ? [edge("most"), edge("least")] : []),
  ];
  return made(element, 120, view, kept, columns, series, {
    write: (number) => quantity(number, unit.replace(/( |^)per .*$/, "").replace("cores", "")),
    bands: banded ? [{ series: [3, 4], fill: faint(colour, 0.2) }] : [],
    points: false,
    cursor: (self) => tell(self.cursor.idx),
  }, user, look);
};

const shapeOf = (data) => JSON.stringify(data.metrics.map((metric) => [metric.name, metric.unit, hasBand(data, metric)]));

export const drawn = (data, view, user) => {
  const { of: look, end } = colours();
  const place = document.getElementById("metrics");
  place.replaceChildren();
  const kept = { data };
  const found = new Map();
  const colour = (name) => {
    if (!found.has(name)) found.set(name, look(name));
    return found.get(name);
  };
  // What is drawn later is in the same colours.
  for (const name of [...Object.values(SHADES).map((shade) => shade.colour), "--shade-held", "--foreign", "--ours", "--surface", "--text"]) colour(name);
  const charts = [
    mainChart(kept, view, user, colour),
    ...data.metrics.map((_, index) => metricChart(place, index, kept, view, user, colour)),
  ];
  end();
  const each = (act) => (...values) => charts.forEach((chart) => chart[act](...values));
  return {
    destroy: each("destroy"),
    redraw: each("redraw"),
    fit: each("fit"),
    moveTo: each("moveTo"),
    hideCursor: each("hideCursor"),
    // Draws later data in the same charts; returns whether it has the same metrics.
    update: (later) => {
      if (shapeOf(later) !== shapeOf(kept.data)) return false;
      kept.data = later;
      each("update")();
      return true;
    },
  };
};

// -- the legend ------------------------------------------------------------------------------

const swatch = (kind, colour) => {
  const square = document.createElement("span");
  square.className = `swatch ${kind}`;
  square.style.setProperty("--swatch", `var(${colour})`);
  return square;
};

const swatchOf = (kind) => (HATCHED.includes(kind) ? "hatched" : PLAIN.includes(kind) ? "plain" : "filled");

const item = (kind, colour, text, values = null) => {
  const entry = document.createElement("span");
  entry.className = "item";
  const name = document.createElement("bdi");
  name.textContent = text;
  entry.append(swatch(kind, colour), name);
  if (values !== null) {
    const value = document.createElement("b");
    value.values = values;
    entry.append(value);
  }
  return entry;
};

export const legendOf = (data) => {
  const shades = [...new Map(data.shades.map((shade) => [shadeOf(shade.kind).word, shade.kind])).entries()];
  const kinds = new Set(data.marks.map((mark) => (mark.kind === "foreign" ? "foreign" : "ours")));
  return [
    item("solid", "--current", "current", data.current),
    item("dashed", "--desired", "desired", data.desired),
    ...data.metrics.map((metric, index) => item("dashed", `--metric-${index % METRIC_COLOURS}`, `asked by ${metric.name}`, metric.proposal)),
    item("dotted", "--bounds", "bounds"),
    ...(kinds.has("ours") ? [item("triangle", "--ours", "our changes")] : []),
    ...(kinds.has("foreign") ? [item("diamond", "--foreign", "changes by others")] : []),
    ...shades.map(([word, kind]) => item(swatchOf(kind), shadeOf(kind).colour, word)),
  ];
};
