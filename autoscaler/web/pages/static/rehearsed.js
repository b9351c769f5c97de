// The charts of rehearsals: in a report, and on the page of a target.

import { colours, drawMarks, edge, faint, line, made } from "./charts.js";
import { shown } from "./times.js";

const LINES = ["--current", "--metric-0", "--metric-2", "--metric-1", "--metric-4"];
const HEIGHT = 260;

const instant = (text) => Date.parse(text) / 1000;

const most = (one, other) => one.map((value, index) => (value === null || other[index] === null ? null : Math.max(value, other[index])));

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

// Lines of other rehearsals have the same times: each holds its number until the next.
const at = (times, values, instants) => {
  let place = -1;
  return instants.map((one) => {
    while (place + 1 < times.length && times[place + 1] <= one) place += 1;
    return place < 0 ? null : values[place];
  });
};

const toldAt = (told, time) => {
  let found = "";
  for (const one of told) {
    if (one.time > time) break;
    found = one.text;
  }
  return found;
};

const toldOf = (target) => [...target.reasons, ...target.changes]
  .map((one) => ({ time: instant(one.time), text: one.text }))
  .sort((one, other) => one.time - other.time);

// Draws one target of some named rehearsals; returns the chart.
export const drawRehearsed = (element, rehearsals) => {
  const targets = rehearsals
    .map(({ name, answer }) => ({ name, target: answer.targets.find((one) => one.target === element.dataset.target) }))
    .filter(({ target }) => target !== undefined);
  const first = targets[0].target;
  const own = { ...first.lines, times: first.lines.times.map(instant) };
  const end = instant(first.to);
  const { of: look, end: looked } = colours();
  const ready = targets.map(({ target }) => at(target.lines.times.map(instant), target.lines.readyLow, own.times));
  const single = targets.length === 1;
  const told = toldOf(first);
  const marks = single ? first.changes.map((one) => ({ ...one, time: instant(one.time), kind: "ours" })) : [];
  const kept = { data: { times: own.times, shades: gapsOf(own, end) } };
  const columns = () => [
    ...(single ? [most(own.demandHigh, own.readyLow), own.readyLow, most(own.readyHigh, own.demandLow), own.demandLow] : []),
    own.demandHigh, own.demandLow, own.ran, ...ready,
  ];
  const base = single ? 4 : 0;
  const series = [
    ...(single ? [edge("short of"), edge("ready"), edge("over"), edge("demand")] : []),
    line("demand", look("--desired"), { width: 1.25 }), edge("least demand"),
    line("really ran", look("--bounds"), { dash: [4, 3], width: 1.5 }),
    ...ready.map((_, index) => line(targets[index].name, look(LINES[index % LINES.length]), { width: 2 })),
  ];
  const bands = [{ series: [base + 1, base + 2], fill: faint(look("--desired"), 0.18) }];
  if (single) {
    bands.push({ series: [1, 2], fill: faint(look("--bad"), 0.3) }, { series: [3, 4], fill: faint(look("--current"), 0.12) });
  }
  const found = new Map(["--shade-lapse", "--foreign", "--ours", "--surface", "--text", "--dim", "--bounds"].map((name) => [name, look(name)]));
  const said = element.parentElement.querySelector(".said");
  const tell = (time, index) => {
    const numbers = [
      own.demandHigh[index] === null ? "demand not known" : `demand ${own.demandHigh[index]}`,
      ...ready.map((values, number) => `${targets[number].name} ${values[index] ?? "–"}`),
      ...(own.ran[index] === null ? [] : [`really ran ${own.ran[index]}`]),
    ];
    const why = single ? toldAt(told, time) : "";
    said.textContent = `${shown(new Date(time * 1000))}: ${numbers.join(", ")}${why ? `; ${why}` : ""}`;
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
