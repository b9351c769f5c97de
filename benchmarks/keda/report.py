"""The results as Markdown."""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.figures import Steady
from benchmarks.keda.pairs import KEDA, OURS, SIDES
from benchmarks.keda.scenarios import Results, Timeline
from benchmarks.tables import markdown

_MIB = 1024 * 1024
_RATIO = f"{KEDA} / {OURS}"


def rows(results: Results) -> str:
    """Return the table of seconds: median, and the least and the most of all samples."""
    body = []
    for row, samples in results.samples.items():
        medians = [_median(samples[side]) for side in SIDES]
        body.append([row, *(_seconds(samples[side]) for side in SIDES), _ratio(*medians)])
    return markdown(["median (least to most) of the samples", *SIDES, _RATIO], body)


def paths(timelines: Sequence[Timeline]) -> str:
    """Return the table of the counts that each pair went through."""
    body = [[one.title, *(one.path(side) for side in SIDES)] for one in timelines]
    return markdown(["replicas", *SIDES], body)


def side_by_side(timeline: Timeline) -> str:
    """Return the counts of both sides over time, a line for each moment at which one changed."""
    moments = [(at, "", text) for at, text in timeline.events]
    moments += [(at, side, str(count)) for side in SIDES for at, count in timeline.changes[side]]
    now = dict.fromkeys(SIDES, str(timeline.start))
    body = []
    for at, side, text in sorted(moments):
        if side:
            now[side] = text
        body.append([f"{at:.1f}", *(now[side] for side in SIDES), "" if side else text])
    return f"{timeline.title}\n\n{markdown(['s', *SIDES, ''], body)}"


def rest(steady: Mapping[str, Steady]) -> str:
    """Return the table of the cost at rest."""
    ours, theirs = steady[OURS], steady[KEDA]
    body = [
        _cost("CPU per target and 15 s, all processes, ms", _cpu(theirs), _cpu(ours)),
        _cost("- with nothing running, ms", _idle_cpu(theirs), _idle_cpu(ours), compared=False),
        _cost("- above that, ms", _own_cpu(theirs), _own_cpu(ours)),
    ]
    body.extend(
        [f"- of {name}, ms", *(_cpu_of(one, name) for one in (theirs, ours)), ""]
        for name in sorted({*theirs.window.cpu, *ours.window.cpu})
    )
    body += [
        _cost("Prometheus queries per 15 s", _queries(theirs), _queries(ours), digits=0),
        _cost("API requests per target and 15 s", _requests(theirs), _requests(ours), digits=2),
    ]
    for name in sorted({*theirs.window.resident, *ours.window.resident}):
        found = [str(one.window.resident.get(name, 0) // _MIB or "") for one in (theirs, ours)]
        body.append([f"resident: {name}, MiB", *found, ""])
    return markdown([f"{ours.targets} at rest", *SIDES, _RATIO], body)


def _cost(
    title: str, theirs: float, ours: float, *, digits: int = 1, compared: bool = True
) -> list[str]:
    values = [f"{value:.{digits}f}" for value in (theirs, ours)]
    return [title, *values, _ratio(theirs, ours) if compared else ""]


def _cpu(one: Steady) -> float:
    return 1000 * sum(one.window.cpu.values()) / one.decisions


def _idle_cpu(one: Steady) -> float:
    return 1000 * sum(one.idle.values()) * one.window.seconds / one.decisions


def _own_cpu(one: Steady) -> float:
    return _cpu(one) - _idle_cpu(one)


def _cpu_of(one: Steady, name: str) -> str:
    spent = one.window.cpu.get(name)
    return "" if spent is None else f"{1000 * spent / one.decisions:.2f}"


def _queries(one: Steady) -> float:
    return one.window.queries / one.syncs


def _requests(one: Steady) -> float:
    return sum(one.window.api.values()) / one.decisions


def _median(samples: Sequence[float | None]) -> float | None:
    found = [one for one in samples if one is not None]
    return statistics.median(found) if found else None


def _seconds(samples: Sequence[float | None]) -> str:
    found = [one for one in samples if one is not None]
    if not found:
        return "never"
    text = f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"
    missing = len(samples) - len(found)
    return f"{text}, {missing} of {len(samples)} never" if missing else text


def _ratio(theirs: float | None, ours: float | None) -> str:
    return "" if theirs is None or not ours else f"{theirs / ours:.1f}"
