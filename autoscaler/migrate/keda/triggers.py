"""The triggers of a ScaledObject -> metrics, schedules, and what cannot be carried over.

https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.migrate.drafts import Comment, Query, SecretValue, Shared
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda import exporters
from autoscaler.migrate.keda.authentications import Authentications
from autoscaler.migrate.keda.metadata import name_of, number_of
from autoscaler.migrate.keda.servers import server_of
from autoscaler.migrate.keda.trigger_types import (
    NULLS,
    RATIO,
    Question,
    external,
    metric_of,
    question_of,
    schedule_of,
    target_of,
)

_RESOURCES = ("cpu", "memory")

_NAMED_BY_ITSELF = "KEDA names its metrics itself since 2.12; it is only the query's name here"
_NO_NAME = "KEDA names its metrics itself since 2.12"
_TYPE_OF_TRIGGER = (
    "KEDA reads `metricType` beside `type` of the trigger; within `metadata` it has no effect"
)
_NOT_READ = "KEDA reads no such key of this trigger, so that it has no effect"
_CACHED = (
    "KEDA reads it once in each pollingInterval; here it is read at each sync, once for all targets"
)
_FAILOVER = (
    "KEDA asks the second trigger while this one fails: write both queries as one, `A or B`, if "
    "one server has both, or do without"
)
_OF_ONE_METRIC = (("metadata", "threshold"), ("metadata", "activationThreshold"), ("metricType",))
_OF_FORMULA = "the formula stands for all triggers"
_NAMELESS = "a formula needs the name of each trigger, without which KEDA fails"
_CRON_IN_FORMULA = "a formula takes it for a number, which no query has: use `schedules`"


class FormulaTrigger(NamedTuple):
    """A trigger that a formula names: its query, and whether a missing value of it is 0."""

    promql: str
    missing_is_zero: bool = True


@dataclass
class Triggers:
    """What the triggers of one ScaledObject become."""

    namespace: str
    name: str
    metrics: list[dict[str, object]] = field(default_factory=list)
    schedules: list[dict[str, object]] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    secrets: list[SecretValue] = field(default_factory=list)
    operands: dict[str, FormulaTrigger] = field(default_factory=dict)
    """Those that a formula can name."""
    servers: set[str] = field(default_factory=set)
    """The servers of these."""
    lost: list[str] = field(default_factory=list)
    """The types of those that have no counterpart."""
    can_be_active: bool = False
    """Whether any of them keeps a target awake: all but those of cpu and memory."""

    def metrics_of_queries(self) -> list[dict[str, object]]:
        """Return the metrics of type External, and those alone."""
        return [metric for metric in self.metrics if metric["type"] == "External"]


def read_triggers(
    spec: Fields,
    names: tuple[str, str],
    authentications: Authentications,
    shared: Shared,
    *,
    in_formula: bool,
) -> Triggers:
    """Convert the triggers of a ScaledObject, of a namespace and a name.

    With a formula the prometheus triggers are its operands, and no metrics by themselves.
    """
    result = Triggers(*names)
    behavior = spec.within("advanced", "horizontalPodAutoscalerConfig", "behavior")
    reader = _TriggerReader(result, authentications, shared, behavior, in_formula=in_formula)
    for index, trigger in enumerate(spec.each("triggers")):
        reader.read(index, trigger)
    return result


class _TriggerReader:
    def __init__(
        self,
        result: Triggers,
        authentications: Authentications,
        shared: Shared,
        behavior: Fields,
        *,
        in_formula: bool,
    ) -> None:
        self._behavior = behavior
        self._result = result
        self._authentications = authentications
        self._shared = shared
        self._in_formula = in_formula
        self._names: set[str] = set()

    def read(self, index: int, trigger: Fields) -> None:
        kind = trigger.get("type")
        self._said_of_all(trigger, kind)
        self._result.can_be_active |= kind not in _RESOURCES
        if kind == "prometheus":
            self._prometheus(trigger)
        elif kind in _RESOURCES:
            self._result.metrics.append(metric_of(str(kind), trigger))
        elif kind == "cron":
            self._cron(index, trigger)
        else:
            self._other(trigger)
            return
        _ignore_the_rest(trigger.within("metadata"))

    def _said_of_all(self, trigger: Fields, kind: object) -> None:
        name = trigger.get("name")
        if isinstance(name, str) and name:
            if name in self._names:
                trigger.refused("name", why="another trigger has this name, which KEDA refuses")
            self._names.add(name)
        cached = trigger.peek("useCachedMetrics")
        if cached and kind in (*_RESOURCES, "cron"):
            trigger.refused("useCachedMetrics", why=f"KEDA refuses it for triggers of type {kind}")
        elif cached:
            trigger.different("useCachedMetrics", why=_CACHED)
        elif cached is not None:
            trigger.carried("useCachedMetrics")
        if trigger.peek("fallback") is not None:
            trigger.refused("fallback", why=_FAILOVER)

    def _prometheus(self, trigger: Fields) -> None:
        metadata = trigger.within("metadata")
        server, secrets = server_of(
            trigger, self._result.namespace, self._authentications, self._shared
        )
        self._result.secrets += [one for one in secrets if one not in self._result.secrets]
        question = question_of(metadata)
        if self._in_formula:
            self._operand(trigger, question, server or "")
            return
        activation = number_of(metadata, "activationThreshold", "prometheus")
        if question is None:
            return
        kind, threshold = target_of(trigger, question)
        words = {**question.words, **({"server": server} if server else {})}
        query = {"query": question.promql, **words} if words else question.promql
        named = name_of(trigger, "") or name_of(metadata, self._result.name, "metricName")
        own = self._query(named, query, nulls=question.nulls_are_zero)
        metric = external(own, kind, threshold)
        if activation:
            metric["activation"] = activation
        if question.is_ratio and kind == "AverageValue":
            self._result.comments.append(Comment(("metrics", len(self._result.metrics)), RATIO))
        self._result.metrics.append(metric)

    def _query(self, wanted: str, query: Query, *, nulls: bool) -> str:
        said = any(NULLS in comments for comments in self._shared.query_comments.values())
        return self._shared.query(wanted, query, *([NULLS] if nulls and not said else []))

    def _operand(self, trigger: Fields, question: Question | None, server: str) -> None:
        for keys in (
            ("metadata", "threshold"),
            ("metadata", "activationThreshold"),
            ("metricType",),
        ):
            if trigger.peek(*keys) is not None:
                trigger.ignored(*keys, why=_OF_FORMULA)
        name = trigger.peek("name")
        if not isinstance(name, str) or not name:
            self._lose(trigger, _NAMELESS, "prometheus")
        elif question is not None:
            self._result.operands.setdefault(
                name, FormulaTrigger(question.promql, question.nulls_are_zero)
            )
            self._result.servers.add(server)

    def _cron(self, index: int, trigger: Fields) -> None:
        if self._in_formula:
            self._lose(trigger, _CRON_IN_FORMULA, "cron")
            return
        try:
            self._result.schedules.append(schedule_of(index, trigger, self._behavior))
        except ValueError as error:
            self._lose(trigger, str(error), "cron")

    def _other(self, trigger: Fields) -> None:
        kind = name_of(trigger, "unknown", "type")
        # It counts as named, though nothing of it is needed.
        self._authentications.find(trigger.within("authenticationRef"), self._result.namespace)
        proposal = exporters.proposal_for(kind, trigger.within("metadata"))
        why = f"it is not read from Prometheus: {exporters.instead_of(kind)}"
        if proposal is None or self._in_formula:
            self._lose(trigger, why, kind)
            return
        own = self._shared.query(
            name_of(trigger, f"{self._result.name}-{kind}"),
            proposal.query,
            f"a proposal in place of a trigger of type {kind}: check the metric and its labels",
        )
        metric = external(own, "AverageValue", proposal.value)
        if proposal.activation:
            metric["activation"] = proposal.activation
        self._result.metrics.append(metric)
        confirm = f"the query {own} stands for it: check it, then take this entry away"
        self._lose(trigger, f"{why}; {confirm}", kind)

    def _lose(self, trigger: Fields, why: str, kind: str) -> None:
        trigger.refused(why=why, kind=kind)
        self._result.lost.append(kind)


def _ignore_the_rest(metadata: Fields) -> None:
    """Say of the keys of which nothing was said that KEDA does not read them."""
    if metadata.peek("metricName") is not None:
        named = name_of(metadata, "", "metricName")
        metadata.ignored("metricName", why=_NAMED_BY_ITSELF if named else _NO_NAME)
    if metadata.peek("metricType") is not None:
        metadata.ignored("metricType", why=_TYPE_OF_TRIGGER)
    own = len(metadata.location)
    said = {entry.location[own] for entry in metadata.entries() if len(entry.location) > own}
    for key in metadata.value.keys() - said:
        metadata.ignored(key, why=_NOT_READ)
