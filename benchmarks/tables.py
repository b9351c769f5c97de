"""Figures as Markdown tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.core import loop
from benchmarks.figures import Figures, Steady, Step

Value = float | None

OWN = (
    "autoscaler",
    "kube-controller-manager",
    "prometheus-adapter",
    "keda-operator",
    "keda-metrics-adapter",
)
"""The processes of autoscalers."""
SERVERS = ("kube-apiserver", "etcd", "prometheus")


@dataclass(frozen=True)
class Row:
    """One line of a table; `digits` are those after the point."""

    title: str
    value: Callable[[Figures], Value]
    digits: int = 1
    compared: bool = True


def comparison(
    columns: Sequence[Figures], pairs: Sequence[tuple[int, int]], rows: Sequence[Row]
) -> str:
    """Return a table with a column for each autoscaler.

    Each pair (theirs, ours) of columns adds one with the ratio of theirs to ours.
    """
    head = ["", *(column.name for column in columns)]
    head += [f"{columns[theirs].name} / {columns[ours].name}" for theirs, ours in pairs]
    body = []
    for row in rows:
        values = [row.value(column) for column in columns]
        if all(value is None for value in values):
            continue
        ratios = [_ratio(values[a], values[b]) if row.compared else "" for a, b in pairs]
        body.append([row.title, *(_text(value, row.digits) for value in values), *ratios])
    return markdown(head, body)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns line up."""
    lines = [head, *body]
    widths = [max(3, *(len(line[at]) for line in lines)) for at in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def padded(line: Sequence[str]) -> str:
        values = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        return f"| {' | '.join([line[0].ljust(widths[0]), *values])} |"

    return "\n".join(padded(line) for line in [head, rule, *body])


def rest_rows() -> list[Row]:
    """Return the rows of start and rest; the loop of `benchmarks.core` is timed for the last."""
    loop_seconds = loop() / 1e6
    return [
        Row("start to the end of the first sync, s", lambda found: found.start),
        _at_rest("seconds from decision to decision", lambda rest: rest.interval, compared=False),
        _at_rest("API requests per target and sync", _requests, 3),
        _at_rest("Prometheus queries per sync", lambda rest: rest.window.queries / rest.syncs),
        _at_rest("CPU per target and sync, all processes, ms", _cpu_per_decision, 3),
        *(_at_rest(f"- {name}, ms", _cpu_of(name), 3, compared=False) for name in OWN),
        *(_at_rest(f"- {name}, ms", _cpu_of(name), 3) for name in SERVERS),
        _at_rest("CPU of a sync, own processes, s", lambda rest: _own_cpu(rest) / rest.syncs, 3),
        _at_rest("own processes, % of a core", _own_share),
        *(
            _at_rest(f"resident: {name}, MB", _resident(name), 0, compared=False)
            for name in (*OWN, *SERVERS)
        ),
        _at_rest(
            "CPU per target and sync, own processes / baseline loop",
            lambda rest: _own_cpu(rest) / rest.decisions / loop_seconds,
        ),
    ]


def step_rows() -> list[Row]:
    """Return the rows of a step of all targets."""
    return [
        Row("sync began (HPA: first write) to last write, s", _of_up(lambda step: step.seconds), 2),
        Row("writes that landed", _of_up(lambda step: len(step.landings)), 0, compared=False),
        Row("CPU of the step per target, all processes, ms", _step_cpu, 2),
    ]


def _at_rest(
    title: str, value: Callable[[Steady], Value], digits: int = 1, *, compared: bool = True
) -> Row:
    def value_at_rest(figures: Figures) -> Value:
        return None if figures.steady is None else value(figures.steady)

    return Row(title, value_at_rest, digits, compared)


def _requests(rest: Steady) -> float:
    return sum(rest.window.api.values()) / rest.decisions


def _cpu_per_decision(rest: Steady) -> float:
    return rest.cpu_of_all / rest.decisions * 1000


def _cpu_of(process: str) -> Callable[[Steady], Value]:
    def value(rest: Steady) -> Value:
        spent = rest.cpu(process)
        return None if spent is None else spent / rest.decisions * 1000

    return value


def _own_cpu(rest: Steady) -> float:
    return sum(rest.cpu(process) or 0.0 for process in OWN)


def _own_share(rest: Steady) -> float:
    return _own_cpu(rest) / rest.window.seconds * 100


def _resident(process: str) -> Callable[[Steady], Value]:
    def value(rest: Steady) -> Value:
        found = rest.window.resident.get(process)
        return None if found is None else found / 1e6

    return value


def _of_up(value: Callable[[Step], Value]) -> Callable[[Figures], Value]:
    return lambda found: None if found.up is None else value(found.up)


def _step_cpu(found: Figures) -> Value:
    if found.up is None:
        return None
    return sum(found.up.cpu.values()) / found.targets * 1000


def _text(value: Value, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _ratio(theirs: Value, ours: Value) -> str:
    if theirs is None or ours is None:
        return ""
    return f"{theirs / ours:,.1f}" if ours else "to 0"
