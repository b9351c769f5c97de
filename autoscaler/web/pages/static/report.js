// A report of replays; it is in one file with the scripts that it imports.

import { colours, drawMarks, edge, faint, line, made } from "./charts.js";
import { localize, shown } from "./times.js";

const LINES = ["--current", "--metric-0", "--metric-2", "--metric-1", "--metric-4"];
const HEIGHT = 260;
// A report is read on any day: its times have their dates.
const NEVER = new Date(0);

const instant = (text) => Date.parse(text) / 1000;

const each = (first, other, made) => first.map((value, index) => (value === null || other[index] === null ? null : made(value, other[index])));

const READY = ["ready", "readyLow", "readyHigh"];

const range = (low, high) => (low === high ? `${low}` : `${low} to ${high}`);

const gapsOf = ({ times, demandLow }, end) => {
  const gaps = [];
  times.forEach((time, index) => {
    if (demandLow[index] !== null) return;
    const next = times[index + 1] ?? end;
    const last = gaps.at(-1);
    if (last?.end === time) last.end = next;
    else gaps.push({ kind: "lapse", begin: time, end: next });
  });
  return gaps;
};

// Lines of other replays have the same times: each holds its number until the next.
const at = (times, values, instants) => {
  let place = -1;
  return instants.map((instant) => {
    while (place + 1 < times.length && times[place + 1] <= instant) place += 1;
    return place < 0 ? null : values[place];
  });
};

const toldAt = (told, time) => {
  let found = "";
  for (const reason of told) {
    if (reason.time > time) break;
    found = reason.text;
  }
  return found;
};

const toldOf = (target) => [...target.reasons, ...target.changes]
  .map((reason) => ({ time: instant(reason.time), text: reason.text }))
  .sort((first, other) => first.time - other.time);

// Draws one target of some named replays; returns the chart.
const drawReplay = (element, replays) => {
  const targets = replays
    .map(({ name, answer }) => ({ name, target: answer.targets.find((target) => target.target === element.dataset.target) }))
    .filter(({ target }) => target !== undefined);
  const first = targets[0].target;
  const own = { ...first.lines, times: first.lines.times.map(instant) };
  const end = instant(first.to);
  const { of: look, end: looked } = colours();
  const ready = targets.map(({ target: { lines } }) => {
    const times = lines.times.map(instant);
    return Object.fromEntries(READY.map((name) => [name, at(times, lines[name], own.times)]));
  });
  const single = targets.length === 1;
  const told = toldOf(first);
  const marks = "changes" in element.dataset ? first.changes.map((change) => ({ ...change, time: instant(change.time), kind: "ours" })) : [];
  const kept = { data: { times: own.times, shades: gapsOf(own, end) } };
  const columns = () => [
    own.demandHigh, own.demandLow,
    ...ready.flatMap((line) => [line.readyHigh, line.readyLow]),
    // The most and the least of a part may be of different instants: pods were missing or too many where it is known.
    ...(single ? [
      own.demandHigh, each(own.demandHigh, own.short, (high, short) => high - short),
      each(own.ready, own.demand, Math.max), own.demand,
    ] : []),
    own.demand, own.ran, ...ready.map((line) => line.ready),
  ];
  const colourOf = (index) => look(LINES[index % LINES.length]);
  const fills = [
    faint(look("--desired"), 0.18), ...ready.map((_, index) => faint(colourOf(index), 0.18)),
    ...(single ? [faint(look("--bad"), 0.3), faint(look("--current"), 0.12)] : []),
  ];
  const series = [
    ...fills.flatMap(() => [edge("most"), edge("least")]),
    line("demand", look("--desired"), { width: 1.25 }),
    line("actual", look("--bounds"), { dash: [4, 3], width: 1.5 }),
    ...ready.map((_, index) => line(targets[index].name, colourOf(index), { width: 2 })),
  ];
  const bands = fills.map((fill, index) => ({ series: [2 * index + 1, 2 * index + 2], fill }));
  const found = new Map(["--shade-lapse", "--foreign", "--ours", "--surface", "--text", "--dim", "--bounds"].map((name) => [name, look(name)]));
  const said = element.parentElement.querySelector(".said");
  const tell = (time, index) => {
    const numbers = [
      own.demandLow[index] === null ? "demand not known" : `demand ${range(own.demandLow[index], own.demandHigh[index])}`,
      ...ready.map((line, number) => `${targets[number].name} ${range(line.readyLow[index] ?? "–", line.readyHigh[index] ?? "–")}`),
      ...(single && own.short[index] ? [`missing ${own.short[index]}`] : []),
      ...(own.ran[index] === null ? [] : [`actual ${own.ran[index]}`]),
    ];
    const why = single ? toldAt(told, time) : "";
    said.textContent = `${shown(new Date(time * 1000), NEVER)}: ${numbers.join(", ")}${why ? `; ${why}` : ""}`;
  };
  looked();
  const user = { point: () => {}, leave: () => {}, pin: () => {}, look: () => {}, pinned: () => null };
  const chart = made(element, HEIGHT, { from: own.times[0], to: end }, kept, columns, series, {
    least: 1,
    bands,
    points: false,
    write: (value) => String(value),
    sync: element.dataset.target,
    draw: (self) => drawMarks(self, marks, (name) => found.get(name)),
    cursor: (self) => {
      const index = self.cursor.idx;
      if (index !== null && index !== undefined) tell(own.times[index], index);
    },
  }, user, (name) => found.get(name) ?? "gray");
  addEventListener("resize", chart.fit);
  tell(own.times[0], 0);
  return { destroy: () => { removeEventListener("resize", chart.fit); chart.destroy(); } };
};

localize(document, NEVER);
const { replays } = JSON.parse(document.getElementById("data").textContent);

// Hundreds of charts are drawn as they come into view.
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    drawReplay(entry.target, replays);
  }
}, { rootMargin: "300px" });
for (const element of document.querySelectorAll(".replay-chart")) seen.observe(element);
