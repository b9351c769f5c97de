"""The triggers of a ScaledObject -> metrics, schedules, and what cannot be carried over.

https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers
"""

import re
from dataclasses import dataclass, field

from autoscaler.core import quantity
from autoscaler.documents import as_yaml, child
from autoscaler.importers.drafts import Comment, Query, SecretValue, Shared
from autoscaler.importers.fields import Fields
from autoscaler.importers.keda import exporters
from autoscaler.importers.keda.authentications import Authentications
from autoscaler.importers.keda.cron_triggers import windows_of
from autoscaler.importers.keda.formulas import Trigger
from autoscaler.importers.keda.metadata import is_false, number_of, parsed, text_of
from autoscaler.importers.keda.promql import is_one_element, one_line
from autoscaler.importers.keda.servers import server_of
from autoscaler.importers.values import not_filled_in, placeholder
from autoscaler.schedules import time_zone

_MOST_TRIGGERS = 100
_SMALLEST = 0.001
"""Of a threshold, in KEDA and here: a thousandth."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}")
_NUMBERED = re.compile(r"s[0-9]+-")
_RESOURCES = ("cpu", "memory")

_NULLS = (
    "KEDA takes an empty answer, NaN and infinity for 0 (ignoreNullValues): leave out `empty` and "
    "`nan` where they may be an outage, so that they scale nothing down"
)
_NULLS_IN_SHORT = (
    "KEDA takes an empty answer, NaN and infinity for 0; so it is here by `empty` and `nan`, but "
    "for infinity, with which nothing goes down"
)
_SEVERAL = "KEDA fails when the query returns several elements; here they are added up"
_NAMED_BY_ITSELF = "KEDA names its metrics itself since 2.12; it is only the query's name here"
_TYPE_OF_TRIGGER = (
    "KEDA reads `metricType` beside `type` of the trigger; within `metadata` it has no effect"
)
_NOT_READ = "KEDA reads no such key of this trigger, so that it has no effect"
_ONCE = "each query is sent once per sync, however many targets use it"
_TOO_MANY = "the cron triggers are too many to compare: import fewer sources at once"
_FAILOVER = (
    "KEDA asks the second trigger while this one fails: write both queries as one, `A or B`, if "
    "one server has both, or do without"
)


@dataclass
class Triggers:
    """What the triggers of one ScaledObject become."""

    namespace: str
    name: str
    metrics: list[dict[str, object]] = field(default_factory=list)
    schedules: list[dict[str, object]] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    secrets: list[SecretValue] = field(default_factory=list)
    operands: dict[str, Trigger] = field(default_factory=dict)
    """Those that a formula can name."""
    servers: dict[str, str] = field(default_factory=dict)
    """The server of each of them."""
    lost: list[str] = field(default_factory=list)
    """The types of those that have no counterpart."""
    skeleton: dict[str, object] = field(default_factory=dict)
    """Queries in place of them, by name."""
    can_be_active: bool = False
    """Whether any of them keeps a target awake: all but those of cpu and memory."""
    cached: bool = True
    """Whether the values of all that are asked for are kept until the next poll."""

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
    reader = _TriggerReader(result, authentications, shared, in_formula=in_formula)
    for index, trigger in enumerate(spec.each("triggers")):
        if index >= _MOST_TRIGGERS:
            trigger.refused(why=f"only the first {_MOST_TRIGGERS} triggers are read")
            result.lost.append("further ones")
            continue
        reader.read(index, trigger)
    return result


def external(name: str, kind: object, value: object) -> dict[str, object]:
    """Write a metric of type External; without a value its target is left to be written."""
    key = "value" if kind == "Value" else "averageValue"
    target = {"type": kind, **({} if value is None else {key: value})}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


class _TriggerReader:
    def __init__(
        self,
        result: Triggers,
        authentications: Authentications,
        shared: Shared,
        *,
        in_formula: bool,
    ) -> None:
        self._result = result
        self._authentications = authentications
        self._shared = shared
        self._in_formula = in_formula
        self._names: set[str] = set()

    def read(self, index: int, trigger: Fields) -> None:
        kind = trigger.get("type")
        self._said_of_all(trigger, kind)
        if kind == "prometheus":
            self._result.can_be_active = True
            self._prometheus(trigger)
        elif kind in _RESOURCES:
            self._resource(str(kind), trigger)
        elif kind == "cron":
            self._result.can_be_active = True
            self._cron(index, trigger)
        else:
            self._result.can_be_active = True
            self._other(str(kind), trigger)

    def _said_of_all(self, trigger: Fields, kind: object) -> None:
        name = trigger.get("name")
        if isinstance(name, str) and name in self._names:
            trigger.refused("name", why="another trigger has this name, which KEDA refuses")
        self._names.add(str(name))
        cached = trigger.peek("useCachedMetrics")
        if cached is not None and kind in (*_RESOURCES, "cron") and cached is not False:
            trigger.refused("useCachedMetrics", why=f"KEDA refuses it for triggers of type {kind}")
        elif cached is not None:
            trigger.ignored("useCachedMetrics", why=_ONCE)
        if kind == "prometheus":
            self._result.cached &= cached is True
        if trigger.peek("fallback") is not None:
            trigger.refused("fallback", why=_FAILOVER)

    def _prometheus(self, trigger: Fields) -> None:
        metadata = trigger.within("metadata")
        promql = _query(metadata)
        server, secrets = server_of(
            trigger, self._result.namespace, self._authentications, self._shared
        )
        self._result.secrets += [one for one in secrets if one not in self._result.secrets]
        metric_name = metadata.peek("metricName")
        nulls_are_zero = _nulls_are_zero(metadata)
        kind = _metric_type(trigger)
        threshold = _threshold(metadata)
        activation = number_of(metadata, "activationThreshold", "prometheus")
        self._ignored(metadata)
        if promql is None:
            return
        _differences(metadata, promql, nulls_are_zero=nulls_are_zero)
        named = trigger.peek("name")
        if self._in_formula:
            self._operand(trigger, promql, server, nulls_are_zero=nulls_are_zero)
            return
        query: dict[str, object] = {"query": promql}
        if nulls_are_zero:
            query |= {"empty": "zero", "nan": "zero"}
        if server:
            query["server"] = server
        wanted = _name(named, metric_name, self._result.name)
        own = self._query(wanted, query if len(query) > 1 else promql, nulls=nulls_are_zero)
        metric = external(own, kind, threshold)
        if activation:
            metric["activation"] = activation
        self._result.metrics.append(metric)

    def _query(self, wanted: str, query: Query, *, nulls: bool) -> str:
        said = any(_NULLS in comments for comments in self._shared.query_comments.values())
        return self._shared.query(wanted, query, *([_NULLS] if nulls and not said else []))

    def _ignored(self, metadata: Fields) -> None:
        if metadata.peek("metricName") is not None:
            metadata.ignored("metricName", why=_NAMED_BY_ITSELF)
        if metadata.peek("metricType") is not None:
            metadata.ignored("metricType", why=_TYPE_OF_TRIGGER)
        for key in metadata.value:
            if metadata.outcome(key) is None:
                metadata.ignored(key, why=_NOT_READ)

    def _operand(
        self, trigger: Fields, promql: str, server: str | None, *, nulls_are_zero: bool
    ) -> None:
        name = trigger.peek("name")
        for key in ("threshold", "activationThreshold"):
            if trigger.peek("metadata", key) is not None:
                trigger.ignored("metadata", key, why="the formula stands for all triggers")
        if trigger.peek("metricType") is not None:
            trigger.ignored("metricType", why="the formula stands for all triggers")
        if isinstance(name, str) and name not in self._result.operands:
            self._result.operands[name] = Trigger(promql, nulls_are_zero)
            self._result.servers[name] = server or ""

    def _resource(self, resource: str, trigger: Fields) -> None:
        metadata = trigger.within("metadata")
        kind, within = trigger.get("metricType"), metadata.get("type")
        if within is not None and kind is not None:
            why = "KEDA refuses a type both here and beside the trigger: leave out one"
            metadata.refused("type", why=why, kind=resource)
        elif within is not None:
            metadata.carried("type")
        kind = kind or within or "Utilization"
        text, container = text_of(metadata, "value"), text_of(metadata, "containerName")
        target = _resource_target(resource, kind, text, trigger)
        self._ignored(metadata)
        source: dict[str, object] = {"name": resource, "target": target}
        if container is None:
            self._result.metrics.append({"type": "Resource", "resource": source})
        else:
            source = {"name": resource, "container": container, "target": target}
            self._result.metrics.append({"type": "ContainerResource", "containerResource": source})

    def _cron(self, index: int, trigger: Fields) -> None:
        metadata = trigger.within("metadata")
        kind = trigger.peek("metricType")
        if kind in ("Value", "Utilization"):
            why = "of a cron trigger makes no sense but as AverageValue: leave it out"
            trigger.refused("metricType", why=why, kind="cron")
        elif kind is not None:
            trigger.carried("metricType")
        if self._in_formula:
            why = "a formula takes it for a number, which no query has: use `schedules`"
            self._lose(trigger, why, "cron")
            return
        start, end, zone = (text_of(metadata, key) for key in ("start", "end", "timezone"))
        count = number_of(metadata, "desiredReplicas", "cron")
        self._ignored(metadata)
        problem = _missing(start, end, zone, count)
        if problem is None and start and end:
            self._windows(index, trigger, (start, end, str(zone)), count)
        else:
            self._lose(trigger, problem or "", "cron")

    def _lose(self, trigger: Fields, why: str, kind: str) -> None:
        trigger.refused(why=why, kind=kind)
        self._result.lost.append(kind)

    def _windows(
        self, index: int, trigger: Fields, times: tuple[str, str, str], count: object
    ) -> None:
        start, end, zone = times
        self._shared.comparisons.left -= 1
        if self._shared.comparisons.left < 0:
            self._lose(trigger, _TOO_MANY, "cron")
            return
        try:
            windows = windows_of(start, end)
        except ValueError as error:
            self._lose(trigger, str(error), "cron")
            return
        named = trigger.peek("name")
        name = named if isinstance(named, str) and _PLAIN.fullmatch(named) else f"cron-{index}"
        for number, window in enumerate(windows):
            own = name if number == 0 else f"{name}-{number + 1}"
            zoned = {} if zone == "UTC" else {"timezone": zone}
            times_of_it = {"start": window.start, "end": window.end}
            self._result.schedules.append(
                {"name": own, **times_of_it, **zoned, "minReplicas": count}
            )
        if len(windows) > 1:
            why = "KEDA has it open while its next end comes no later than its next start"
            trigger.different("metadata", "start", why=f"{why}: several windows are open as it is")
            place = ("schedules", len(self._result.schedules) - len(windows))
            self._result.comments.append(
                Comment(place, f"{why}, {start} and {end}: these windows are open as it is")
            )

    def _other(self, kind: str, trigger: Fields) -> None:
        plain = kind if _PLAIN.fullmatch(kind) else "unknown"
        metadata = trigger.within("metadata")
        self._authentications.find(trigger.within("authenticationRef"), self._result.namespace)
        proposal = exporters.proposal_for(plain, metadata)
        why = f"it is not read from Prometheus: {exporters.instead_of(plain)}"
        if proposal is None or self._in_formula:
            self._lose(trigger, why, plain)
            return
        own = self._shared.query(
            _name(trigger.peek("name"), None, f"{self._result.name}-{plain}"),
            proposal.query,
            f"a proposal in place of a trigger of type {plain}: check the metric and its labels",
        )
        self._result.skeleton[own] = proposal.query
        metric = external(own, "AverageValue", proposal.value)
        if proposal.activation:
            metric["activation"] = proposal.activation
        self._result.metrics.append(metric)
        confirm = f"the query {own} stands for it: check it, then take this entry away"
        self._lose(trigger, f"{why}; {confirm}", plain)


def skeleton_of(triggers: Triggers) -> str:
    """Write the queries and metrics that are proposed in place of triggers, to be pasted."""
    if not triggers.skeleton:
        return ""
    metrics = [
        metric
        for metric in triggers.metrics_of_queries()
        if child(metric, "external", "metric", "name") in triggers.skeleton
    ]
    return as_yaml({"queries": triggers.skeleton, "metrics": metrics})


def _name(named: object, metric_name: object, default: str) -> str:
    for name in (named, metric_name):
        if isinstance(name, str) and _PLAIN.fullmatch(name) and not _NUMBERED.match(name):
            return name
    return default


def _query(metadata: Fields) -> str | None:
    text = text_of(metadata, "query")
    if text is None:
        metadata.refused("query", why="is required: KEDA fails without it", kind="prometheus")
        return None
    if found := placeholder(text):
        metadata.refused("query", why=not_filled_in(found), kind="prometheus")
        return text
    try:
        closed = one_line(text)
    except ValueError as error:
        metadata.refused("query", why=f"{error}: mend it", kind="prometheus")
        return text
    return closed if "\n" in text else text


def _differences(metadata: Fields, promql: str, *, nulls_are_zero: bool) -> None:
    entry = metadata.outcome("query")
    if entry is not None and entry.why:
        return
    several = [] if is_one_element(promql) else [_SEVERAL]
    why = "; ".join([*([_NULLS_IN_SHORT] if nulls_are_zero else []), *several])
    if why:
        metadata.different("query", why=why)


def _nulls_are_zero(metadata: Fields) -> bool:
    """Read `ignoreNullValues`, which is true unless something else is said."""
    return not is_false(text_of(metadata, "ignoreNullValues"))


def _metric_type(trigger: Fields) -> str:
    kind = trigger.get("metricType")
    if kind in (None, "", "AverageValue", "Value"):
        return "Value" if kind == "Value" else "AverageValue"
    why = "KEDA refuses it for a prometheus trigger: write AverageValue or Value"
    trigger.refused("metricType", why=why, kind="prometheus")
    return "AverageValue"


def _threshold(metadata: Fields) -> int | float | None:
    if text_of(metadata, "threshold") is None:
        metadata.refused("threshold", why="is required: KEDA fails without it", kind="prometheus")
        return None
    number = number_of(metadata, "threshold", "prometheus")
    if number is None or number >= _SMALLEST:
        return number
    why = "must be 0.001 or more: Kubernetes refuses the HPA that KEDA makes of it; write what one "
    metadata.refused("threshold", why=f"{why}replica is to bear", kind="prometheus")
    return None


def _resource_target(
    resource: str, kind: object, text: str | None, trigger: Fields
) -> dict[str, object]:
    metadata = trigger.within("metadata")
    if text is None:
        metadata.refused("value", why="is required: KEDA fails without it", kind=resource)
    elif found := placeholder(text):
        metadata.refused("value", why=not_filled_in(found), kind=resource)
    elif kind == "Utilization":
        number = parsed(text)
        if isinstance(number, int) and number > 0:
            return {"type": "Utilization", "averageUtilization": number}
        why = "must be a whole number of percent, 1 or more: KEDA or Kubernetes refuse it"
        metadata.refused("value", why=why, kind=resource)
    elif kind == "AverageValue":
        try:
            positive = quantity.parse(text) > 0
        except ValueError:
            positive = False
        if positive:
            return {"type": "AverageValue", "averageValue": text}
        why = "must be a quantity above 0, such as 500m or 1Gi: KEDA or Kubernetes refuse it"
        metadata.refused("value", why=why, kind=resource)
    else:
        place = ("metricType",) if trigger.peek("metricType") is not None else ("metadata", "type")
        why = "must be Utilization or AverageValue, as KEDA refuses all others"
        trigger.refused(*place, why=why, kind=resource)
        return {"type": "Utilization"}
    return {"type": kind}


def _missing(start: str | None, end: str | None, zone: str | None, count: object) -> str | None:
    """Say what a cron trigger lacks, without which KEDA fails."""
    given = {"start": start, "end": end, "timezone": zone, "desiredReplicas": count}
    lacking = [key for key, value in given.items() if value is None]
    if lacking:
        return f"it lacks {', '.join(lacking)}, without which KEDA fails"
    for value in (start, end, zone):
        if found := placeholder(value):
            return not_filled_in(found)
    if not isinstance(count, int) or count < 0:
        return "its desiredReplicas is no count, without which KEDA fails"
    try:
        time_zone(str(zone))
    except ValueError as error:
        return f"its timezone {error}"
    return None
