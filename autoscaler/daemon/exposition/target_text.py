"""The lines of each target's metrics.

With 10,000 targets they are some 150,000, for which prometheus-client takes seconds: it makes an
object and sorts and escapes the labels for each of them anew.  Label texts that are made once,
and one expression per metric, take a tenth of a second.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from autoscaler.core.observation import ConditionStatus
from autoscaler.daemon.exposition import families
from autoscaler.daemon.exposition.families import Family, Kind
from autoscaler.daemon.exposition.target_states import Row

_Lines = Iterable[str]


def target_text(rows: Sequence[Row], *, openmetrics: bool) -> Iterator[bytes]:
    """Yield the text of one metric after another, in either of the text formats."""
    for family in families.PER_TARGET:
        lines = _LINES[family](f"{family.name}", rows)
        yield (_head(family, openmetrics=openmetrics) + "".join(lines)).encode()


def _head(family: Family, *, openmetrics: bool) -> str:
    # OpenMetrics names a counter without the ending of its samples.
    counts = openmetrics and family.kind is Kind.COUNTER
    name = family.name.removesuffix("_total") if counts else family.name
    return f"# HELP {name} {family.meaning}\n# TYPE {name} {family.kind}\n"


def _gauge(attribute: str) -> Callable[[str, Sequence[Row]], _Lines]:
    """Return what writes one number of each state; a target that has none has no line."""
    value_of = attrgetter(attribute)

    def write(name: str, rows: Sequence[Row]) -> _Lines:
        return [
            f"{name}{labels.target}}} {value!r}\n"
            for labels, state, _ in rows
            if (value := value_of(state)) is not None
        ]

    return write


def _info(name: str, rows: Sequence[Row]) -> _Lines:
    return [f"{name}{labels.info}}} 1\n" for labels, _, _ in rows]


def _outcome(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f'{name}{labels.target},outcome="{state.outcome}",reason="{state.reason}"}} 1\n'
        for labels, state, _ in rows
    ]


def _proposed(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{metric}}} {proposal}\n"
        for labels, state, _ in rows
        for metric, proposal in zip(labels.metrics, state.proposals, strict=False)
        if proposal is not None
    ]


def _desired(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f"{name}{labels.target}}} {state.desired}\n"
        for labels, state, _ in rows
        if state.current is not None
    ]


def _limited(name: str, rows: Sequence[Row]) -> _Lines:
    return [
        f'{name}{labels.target},reason="{state.limited}"}} 1\n'
        for labels, state, _ in rows
        if state.limited is not None
    ]


def _condition(name: str, rows: Sequence[Row]) -> _Lines:
    true = ConditionStatus.TRUE
    return [
        f'{name}{labels.target},condition="{one.type}"}} {1 if one.status is true else 0}\n'
        for labels, state, _ in rows
        for one in state.conditions
    ]


def _foreign_changes(name: str, rows: Sequence[Row]) -> _Lines:
    return [f"{name}{labels.target}}} {changes}\n" for labels, _, changes in rows]


_LINES: dict[Family, Callable[[str, Sequence[Row]], _Lines]] = {
    families.TARGET_INFO: _info,
    families.TARGET_OUTCOME: _outcome,
    families.TARGET_LAST_SUCCESS: _gauge("succeeded"),
    families.TARGET_CURRENT: _gauge("current"),
    families.TARGET_PROPOSED: _proposed,
    families.TARGET_STABILIZED: _gauge("stabilized"),
    families.TARGET_DESIRED: _desired,
    families.TARGET_MIN: _gauge("minimum"),
    families.TARGET_MAX: _gauge("maximum"),
    families.TARGET_LIMITED: _limited,
    families.TARGET_CONDITION: _condition,
    families.TARGET_HELD_UNTIL: _gauge("held_until"),
    families.TARGET_NO_SCALE_DOWN_UNTIL: _gauge("no_scale_down_until"),
    families.TARGET_FOREIGN_CHANGES: _foreign_changes,
}
