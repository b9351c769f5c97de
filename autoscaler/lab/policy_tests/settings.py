"""The file of `autoscaler test`: the events of targets, and the expectations.

All times in a test count from its begin.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from autoscaler.cli.json_schemas import SchemaFile
from autoscaler.config.error_messages import suggestion
from autoscaler.config.fields import (
    Count,
    Duration,
    FilePath,
    LongerThanZero,
    PositiveCount,
    TargetQuantity,
    Text,
)
from autoscaler.config.models import Items, Model, OrDefault
from autoscaler.config.promql_parser import VectorSelector
from autoscaler.config.promql_parser import parse as parse_promql
from autoscaler.config.settings import MainFile, PrometheusServers
from autoscaler.core.breaker import Breaker
from autoscaler.core.observation import HOLD_QUERY
from autoscaler.core.spec import Flags
from autoscaler.core.target import QueryKey, Target
from autoscaler.core.text import instant_of
from autoscaler.lab.engine.assumptions import LoadAssumption, Pattern, WorkloadAssumption
from autoscaler.lab.series_notation import Item, parse

LimitReason = Literal[
    "ScaleUpLimit",
    "ScaleDownLimit",
    "TooManyReplicas",
    "TooFewReplicas",
    "ScaleUpStabilized",
    "ScaleDownStabilized",
    "Paused",
    "ScaleUpPaused",
    "ScaleDownPaused",
    "ScaleDownHeld",
    "ScaleDownBreaker",
    "MinReplicasUnknown",
    "ReplicasContested",
    "nothing",
]
"""Why a count is not what the metrics ask for: reasons of the HPA, and ours."""
StateName = Literal[
    "failing",
    "controlled",
    "contested",
    "paused",
    "disabled",
    "atMaximum",
    "limited",
    "held",
    "stabilizing",
    "idle",
    "ok",
]
"""The states in `status`; no target of a test is in shadow."""
BEGIN = "2026-01-05T00:00:00Z"
"""A Monday."""


def _series(value: object) -> tuple[Item, ...]:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("is empty: write _ for no sample")
    if isinstance(value, str):
        return parse(value)
    raise ValueError("must be a series in promtool's notation, such as 200x20 0+10x20 _ stale")


def _instant(text: str) -> float:
    found = instant_of(text)
    if found is None or found < 0:
        raise ValueError(f"must be an instant such as {BEGIN}")
    return found


SeriesText = Annotated[
    tuple[Item, ...], BeforeValidator(_series), WithJsonSchema({"type": ["string", "number"]})
]
Begin = Annotated[
    float,
    BeforeValidator(lambda value: _instant(value) if isinstance(value, str) else value),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class Start(Model):
    """The start of a test."""

    at: Begin = Field(default=_instant(BEGIN), json_schema_extra={"default": BEGIN})
    """The instant of the begin, which matters for schedules."""
    replicas: Count | None = None
    """The count of each target. Default: minReplicas, at least 1."""
    ready_after: Duration | None = None
    """The time from a pod's creation until it is ready. Default: 30s."""
    requests: dict[Text, TargetQuantity] | None = None
    """The requests of each pod by resource. Default: 1 core and 1Gi."""


class WorldEvent(Model):
    """An event, at the first sync at or after its time."""

    at: Duration
    """The time, from the begin on."""
    target: OrDefault[Pattern] = "*"
    """The targets of the test: a name or a pattern."""
    for_: LongerThanZero | None = Field(default=None, alias="for")
    """Its duration. Default: until the end."""
    set_replicas: Count | None = None
    """Another client sets the count."""
    by: OrDefault[Text] = "kubectl-scale"
    """The field manager of that client."""
    annotations: dict[Text, Text | None] | None = None
    """Annotations of the workload that are set, such as autoscaler/paused; null removes one."""
    restart: OrDefault[bool] = False
    """The daemon restarts, with its state."""
    lose_state: OrDefault[bool] = False
    """The daemon restarts, and its state is lost."""
    takeover: OrDefault[bool] = False
    """A standby takes over."""
    down: OrDefault[bool] = False
    """The daemon does not run; requires `for`."""
    query: Text | None = None
    """The query whose answer fails or is partial, as in `series`. Default: all queries."""
    query_fails: Text | None = None
    """Prometheus answers with this error."""
    partial: Text | None = None
    """Prometheus answers with this warning."""
    write_fails: Text | None = None
    """The API server refuses writes with this message."""
    unreadable: Text | None = None
    """The API server answers with this message when the scale is read."""
    controlled_by: Text | None = None
    """Another autoscaler that controls the target, such as HorizontalPodAutoscaler/worker."""
    ready_after: Duration | None = None
    """The time in which new pods become ready."""


class Expectation(Model):
    """An expectation at an instant, after the sync at or before it, or at all syncs of a time."""

    at: Duration | None = None
    """The instant."""
    from_: Duration | None = Field(default=None, alias="from")
    """The begin of the time, inclusive."""
    to: Duration | None = None
    """The end of the time, inclusive."""
    target: OrDefault[Pattern] = "*"
    """The targets of the test: a name or a pattern."""
    replicas: Count | None = None
    """The count."""
    ready: Count | None = None
    """The number of ready pods."""
    proposal: Count | None = None
    """The replicas that the metrics ask for, before stabilization, policies and bounds."""
    desired: Count | None = None
    """The desired replicas."""
    above: Count | None = None
    """The count is above this."""
    below: Count | None = None
    """The count is below this."""
    no_change: OrDefault[bool] = False
    """The count does not change; requires `from` and `to`."""
    reason: Text | None = None
    """A part of the sentence that explains it, or of the HPA's reason."""
    limited_by: LimitReason | None = None
    """Why the count is not what the metrics ask for: the HPA's reason or ours, or nothing."""
    state: StateName | None = None
    """The state that `status` shows."""
    event: Text | None = None
    """The reason of a Kubernetes Event of the sync, or of one of the syncs in a time."""
    conditions: dict[Text, Text] | None = None
    """By type: the status or the reason of a condition."""


class ForbiddenValues(Model):
    """Values that must never occur in a test."""

    below: Count | None = None
    """The count is below this."""
    above: Count | None = None
    """The count is above this."""
    changes_per_10m: PositiveCount | None = Field(default=None, alias="changesPer10m")
    """More of our changes than this within 10 minutes."""


class PolicyTest(Model):
    """One test: targets, the results of their queries, events, and expectations."""

    name: Text
    """The fact that it shows."""
    target: Pattern | None = None
    """NAMESPACE/NAME, NAMESPACE/KIND/NAME, or a pattern for several. Default: the only one."""
    start: OrDefault[Start] = Field(default_factory=Start)
    """The start."""
    workloads: Items[WorkloadAssumption] = ()
    """The pods of single targets, with precedence over `start`."""
    interval: LongerThanZero | None = None
    """The time between two samples. Default: the file's."""
    duration: LongerThanZero | None = None
    """The duration. Default: the longest of its series, events and expectations."""
    series: OrDefault[dict[Text, SeriesText]] = Field(default_factory=dict)
    """Samples in promtool's notation by query: its name, its PromQL, or the metric, each with
    labels in braces if there are several."""
    loads: Items[LoadAssumption] = ()
    """How the readings follow the count."""
    events: Items[WorldEvent] = ()
    """Events."""
    expect: Items[Expectation] = ()
    """The expectations."""
    never: ForbiddenValues | None = None
    """Values that must not occur, in addition to the file's."""


class PolicyTests(Model):
    """The part of a file of tests that is not a configuration."""

    config: FilePath | None = None
    """The tested configuration. Default: its keys are in this file."""
    interval: LongerThanZero | None = None
    """The time between two samples. Default: the sync period."""
    never: ForbiddenValues | None = None
    """Values that must not occur in any test."""
    tests: Annotated[Items[PolicyTest], Field(min_length=1)]
    """The tests."""


class PolicyTestsFile(PolicyTests, MainFile):
    """The policy tests of autoscaler, with the configuration that is tested, or its name."""

    prometheus: PrometheusServers | None = None  # type: ignore[assignment] # nobody is asked
    """The Prometheus servers, which tests do not need."""

    has_rules: ClassVar[bool] = False
    """No rule between fields is in the schema, since the configuration may be another file."""


TESTS = SchemaFile("autoscaler policy tests", PolicyTestsFile, "autoscaler-tests.schema.json")


# -- whose samples the series are ------------------------------------------------------------------


Reader: TypeAlias = tuple[str, int] | QueryKey
"""The reader of a series: a metric, by the key of its target and its number, or another query."""


class NamedSeries(NamedTuple):
    """A series of a test: its name there, its readers, its labels if stated."""

    name: str
    readers: tuple[Reader, ...]
    labels: Mapping[str, str] | None
    items: tuple[Item, ...]


class SeriesNames:
    """The valid names of series for some targets, and their readers."""

    def __init__(
        self,
        targets: Sequence[Target],
        loads: Iterable[LoadAssumption],
        of_queries: Mapping[QueryKey, str],
    ) -> None:
        self._readers: dict[str, dict[Reader, None]] = {}
        arrivals = [load for load in loads if load.arrivals is not None]
        self.metrics: dict[Reader, str] = {}
        """The readers that need a series, and their names."""
        for target in targets:
            for number, (metric, query) in enumerate(
                zip(target.spec.metrics, target.queries, strict=True)
            ):
                name = metric.name
                self._add((target.key, number), name, query.promql)
                served = [arrival for arrival in arrivals if fnmatchcase(name, arrival.metric)]
                for load in served:
                    self._add(QueryKey(query.server, load.arrivals or ""), load.arrivals or "")
                if not served:
                    self.metrics[target.key, number] = name
            for name, other in self._others(target):
                self._add(other, name, other.promql, of_queries.get(other, name))
                if name != HOLD_QUERY:
                    self.metrics[other] = name

    def _add(self, reader: Reader, *names: str) -> None:
        for name in names:
            self._readers.setdefault(name, {})[reader] = None

    @staticmethod
    def _others(target: Target) -> Iterable[tuple[str, QueryKey]]:
        bounds = (
            ("minReplicasQuery", target.min_replicas_query),
            ("maxReplicasQuery", target.max_replicas_query),
        )
        yield from ((name, query.key) for name, query in bounds if query is not None)
        if target.hold is not None:
            yield HOLD_QUERY, target.hold.query.key

    def series(self, name: str, items: tuple[Item, ...] = ()) -> NamedSeries:
        """Return the series with a name. Raises ValueError with the sentence."""
        labels = None
        readers = self._readers.get(name)
        if readers is None and name.endswith("}"):
            base, _, rest = name.partition("{")
            readers = self._readers.get(base.strip())
            labels = None if readers is None else _labels(f"{{{rest}")
        if readers is None:
            known = suggestion(name, self._readers)
            raise ValueError(f"is not a query or metric of the tested targets: {known}")
        return NamedSeries(name, tuple(readers), labels, items)


def _labels(text: str) -> Mapping[str, str]:
    """Read the labels of a series, such as ``{pod="web-0"}``.  Raises ValueError."""
    try:
        selector = parse_promql(text)
    except ValueError:
        selector = None
    matchers = selector.matchers if isinstance(selector, VectorSelector) else None
    if matchers is None or any(
        matcher.operator != "=" or "\\" in matcher.written for matcher in matchers
    ):
        raise ValueError('has labels that cannot be read: write them as {pod="web-0", a="b"}')
    return {matcher.label: matcher.value for matcher in matchers}


@dataclass(frozen=True)
class ReadyTest:
    """A test that can run; ``number`` is its index in the file, from 0."""

    number: int
    model: PolicyTest
    targets: tuple[Target, ...]
    flags: Flags
    breaker: Breaker | None
    interval: float
    duration: float
    series: tuple[NamedSeries, ...]
    never: tuple[tuple[str, ForbiddenValues], ...]
    """Values that must not occur, and their place in the file."""
    faulty: Mapping[str, frozenset[Reader]]
    """The readers of the query that an event names."""
