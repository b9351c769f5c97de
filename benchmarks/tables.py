"""Figures as Markdown tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.figures import Figures, Steady, Step

Value = float | None

PROCESSES = (
    "autoscaler",
    "kube-controller-manager",
    "prometheus-adapter",
    "kube-apiserver",
    "etcd",
    "prometheus",
)


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


def growth(columns: Sequence[Figures], rows: Sequence[Row]) -> str:
    """Return a table with a line for each number of targets."""
    head = ["targets", *(row.title for row in rows)]
    body = [
        [f"{column.targets:,}", *(_text(row.value(column), row.digits) for row in rows)]
        for column in columns
    ]
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


def side_by_side_rows() -> list[Row]:
    """Return the rows of the comparison of autoscalers at one number of targets."""
    return [
        Row("start to the end of the first sync, s", lambda found: found.start),
        *steady_rows(),
        *(
            Row(f"step: sync began (HPA: first write) to {title}, s", _landed(share, _began), 2)
            for title, share in (("half", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("last write", 1.0))
        ),
        Row("step: first write to last write, s", _landed(1.0, _first), 2),
        Row("step: new values in Prometheus to last write, s", _landed(1.0, _visible), 2),
        Row("step: series changed to last write, s", _landed(1.0, _changed), 2),
        Row("step: writes that landed", _count, 0, compared=False),
        Row("step: CPU of all processes per target, ms", _step_cpu, 2),
    ]


def steady_rows() -> list[Row]:
    """Return the rows of a time at rest."""
    return [
        Row(
            "seconds from decision to decision",
            _of_steady(lambda rest: rest.interval),
            1,
            compared=False,
        ),
        Row("API requests per target and sync, nothing changing", _of_steady(_requests), 3),
        Row(
            "Prometheus queries per sync", _of_steady(lambda rest: rest.window.queries / rest.syncs)
        ),
        Row("CPU per target and sync, all processes, ms", _of_steady(_cpu_per_decision), 3),
        *(
            Row(f"- {name}, ms", _of_steady(_cpu_of(name)), 3, compared=name in PROCESSES[3:])
            for name in PROCESSES
        ),
        Row("CPU of a sync, own processes, s", _of_steady(_own_cpu_per_sync), 3),
        Row("own processes at rest, % of a core", _of_steady(_own_share)),
        *(
            Row(f"resident: {name}, MB", _of_steady(_resident(name)), 0, compared=False)
            for name in PROCESSES
        ),
    ]


def growth_rows() -> list[Row]:
    """Return the columns of the growth table."""
    return [
        Row("start, s", lambda found: found.start),
        Row("CPU of a sync, s", _of_steady(_own_cpu_per_sync), 3),
        Row("% of a core", _of_steady(_own_share)),
        Row("ms per target, all processes", _of_steady(_cpu_per_decision), 3),
        Row("resident, MB", _of_steady(_resident("autoscaler")), 0),
        Row("API requests per target and sync", _of_steady(_requests), 3),
        Row("queries per sync", _of_steady(lambda rest: rest.window.queries / rest.syncs)),
        Row("step: last write after the sync began, s", _landed(1.0, _began), 2),
        Row("writes that landed", _count, 0),
    ]


def _of_steady(value: Callable[[Steady], Value]) -> Callable[[Figures], Value]:
    return lambda found: None if found.steady is None else value(found.steady)


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
    return sum(rest.cpu(process) or 0.0 for process in PROCESSES[:3])


def _own_cpu_per_sync(rest: Steady) -> float:
    return _own_cpu(rest) / rest.syncs


def _own_share(rest: Steady) -> float:
    return _own_cpu(rest) / rest.window.seconds * 100


def _resident(process: str) -> Callable[[Steady], Value]:
    def value(rest: Steady) -> Value:
        found = rest.window.resident.get(process)
        return None if found is None else found / 1e6

    return value


def _landed(share: float, since: Callable[[Step], Value]) -> Callable[[Figures], Value]:
    return lambda found: None if found.up is None else found.up.landed(share, since(found.up))


def _began(step: Step) -> Value:
    """Return when the sync began; of the HPA only its first write is seen, a little later."""
    return _first(step) if step.began is None else step.began


def _visible(step: Step) -> Value:
    return step.visible


def _changed(step: Step) -> Value:
    return step.changed


def _first(step: Step) -> Value:
    return step.landings[0] if step.landings else None


def _count(found: Figures) -> Value:
    return None if found.up is None else len(found.up.landings)


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
