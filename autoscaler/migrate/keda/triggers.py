"""Converts the triggers of a ScaledObject to metrics and schedules, or refuses them.

https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler import quantities
from autoscaler.config.promql_parser import parse
from autoscaler.migrate.drafts import Comment, SecretValue, SharedSettings, external
from autoscaler.migrate.fields import Fields, not_filled_in, placeholder
from autoscaler.migrate.keda import cron, exporters, servers
from autoscaler.migrate.keda.authentications import Authentications
from autoscaler.migrate.keda.metadata import is_false, parsed, texts_of
from autoscaler.migrate.promql_answers import (
    A_RATIO_IS_DIVIDED,
    is_one_value,
    is_ratio,
    may_be_nan,
    tidied,
)

_MOST_TRIGGERS = 100
_MOST_CRON_TRIGGERS = 1000
_RESOURCES = ("cpu", "memory")
_KNOWN = {
    "prometheus": frozenset(
        {"query", "threshold", "activationThreshold", "ignoreNullValues", *servers.KEYS}
    ),
    **dict.fromkeys(_RESOURCES, frozenset({"type", "value", "containerName"})),
    "cron": frozenset(cron.KEYS),
}
"""The keys of metadata that KEDA reads, by the type of the trigger."""
_PLAIN = re.compile(r"(?!s[0-9]+-)[A-Za-z0-9][A-Za-z0-9._:-]{0,62}")
"""A name given by a person: names by KEDA begin with s0- and so on."""

_NAMED_BY_ITSELF = "KEDA names its metrics itself since 2.12; it is only the query's name here"
_NO_NAME = "KEDA names its metrics itself since 2.12"
_TYPE_OF_TRIGGER = (
    "KEDA reads `metricType` next to `type` of the trigger; within `metadata` it has no effect"
)
_CACHED = (
    "KEDA reads it once in each pollingInterval; here it is read at each sync, once for all targets"
)
_FAILOVER = (
    "KEDA asks the second trigger while this one fails: write both queries as one, `A or B`, if "
    "one server has both, or do without"
)
_OF_FORMULA = "the formula replaces all triggers"
_NAMELESS = "a formula needs the name of each trigger, without which KEDA fails"
_CRON_IN_FORMULA = "in a formula it is a number, which no query gives here: use `schedules`"
_NULLS = (
    "KEDA takes an empty answer, NaN and infinity for 0 (ignoreNullValues): remove `empty` "
    "and `nan` if these may mean an outage, so that they scale nothing down"
)
_RATIO = A_RATIO_IS_DIVIDED.format("KEDA")
_SMALLEST = 0.001
"""The least step of a threshold, in KEDA and here: a thousandth."""
_NULLS_IN_SHORT = "KEDA treats an empty answer as 0; `empty: zero` does the same here"
_NAN_IN_SHORT = (
    "`nan: zero` does so for NaN; KEDA treats infinity as 0, too, but here it stops scaling down"
)
_SEVERAL = "KEDA fails when the query returns several elements; here they are added up"
_REQUIRED = "is required: KEDA fails without it"
_TOO_SMALL = (
    "must be 0.001 or more: Kubernetes refuses the HPA that KEDA makes of it; write what one "
    "replica is to bear"
)
_NOT_EXTERNAL = "KEDA refuses it for a prometheus trigger: write AverageValue or Value"
_BOTH = "KEDA refuses `type` together with the trigger's `metricType`: leave out one"
_OLD = "KEDA refuses it since 2.18, and reads `metricType` next to the trigger's `type` instead"
_NEITHER = "KEDA refuses it without a metricType; a number is read as a percentage, Utilization"
_NO_PERCENTAGE = "must be a whole number of percent, 1 or more: KEDA or Kubernetes refuse it"
_NO_QUANTITY = "must be a quantity above 0, such as 500m or 1Gi: KEDA or Kubernetes refuse it"
_NO_TYPE = "must be Utilization or AverageValue, as KEDA refuses all others"
_TOO_MANY = "the cron triggers are too many to compare: import fewer sources at once"


class FormulaTrigger(NamedTuple):
    """A trigger in a formula: its query, and whether a missing value of it is 0."""

    promql: str
    missing_is_zero: bool = True


class _Question(NamedTuple):
    """The query of a trigger, and how KEDA reads its answer."""

    promql: str
    nulls_are_zero: bool
    may_be_nan: bool
    is_ratio: bool


@dataclass
class Triggers:
    """The triggers of one ScaledObject, and their results.

    With a formula the prometheus triggers are its operands, and not metrics of their own.
    """

    namespace: str
    name: str
    authentications: Authentications
    shared: SharedSettings
    in_formula: bool
    metrics: list[dict[str, object]] = field(default_factory=list)
    schedules: list[dict[str, object]] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    secrets: list[SecretValue] = field(default_factory=list)
    operands: dict[str, FormulaTrigger] = field(default_factory=dict)
    """The triggers that a formula can name."""
    servers: set[str] = field(default_factory=set)
    """The servers of these."""
    lost: list[str] = field(default_factory=list)
    """The types without a counterpart."""
    can_be_active: bool = False
    """Whether any trigger keeps a target awake: all but cpu and memory."""

    _names: set[str] = field(default_factory=set)

    def metrics_of_queries(self) -> list[dict[str, object]]:
        """Return the metrics of type External, and those alone."""
        return [metric for metric in self.metrics if metric["type"] == "External"]

    def read(self, spec: Fields) -> None:
        """Convert all of them."""
        behavior = spec.within("advanced", "horizontalPodAutoscalerConfig", "behavior")
        for index, trigger in enumerate(spec.each("triggers")):
            if index >= _MOST_TRIGGERS:
                trigger.refused(why=f"only the first {_MOST_TRIGGERS} triggers are read")
                self.lost.append("further ones")
                continue
            kind = trigger.get("type")
            self._said_of_all(trigger, kind)
            self.can_be_active |= kind not in _RESOURCES
            known = _KNOWN.get(kind) if isinstance(kind, str) else None
            if known is None:
                self._other(trigger)
                continue
            metadata = trigger.within("metadata")
            texts = texts_of(metadata, known)
            for key, why in (
                ("metricName", _NAMED_BY_ITSELF if _name(metadata, "metricName") else _NO_NAME),
                ("metricType", _TYPE_OF_TRIGGER),
            ):
                if metadata.peek(key) is not None:
                    metadata.ignored(key, why=why)
            if kind == "prometheus":
                self._prometheus(trigger, texts)
            elif kind == "cron":
                self._cron(index, trigger, texts, behavior)
            else:
                self.metrics.append(_of_resource(str(kind), trigger, texts))

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

    def _prometheus(self, trigger: Fields, texts: Mapping[str, str]) -> None:
        metadata = trigger.within("metadata")
        server, secrets = servers.server_of(
            trigger, texts, self.namespace, self.authentications, self.shared
        )
        self.secrets += [secret for secret in secrets if secret not in self.secrets]
        question = _question(metadata, texts)
        if self.in_formula:
            self._operand(trigger, question, server or "")
            return
        activation = _number(metadata, texts, "activationThreshold")
        if question is None:
            return
        kind, threshold = _target(trigger, texts, question)
        zero = {"empty": "zero"} if question.nulls_are_zero else {}
        words = {**zero, **({"nan": "zero"} if zero and question.may_be_nan else {})}
        words |= {"server": server} if server else {}
        query = {"query": question.promql, **words} if words else question.promql
        said = any(_NULLS in comments for comments in self.shared.query_comments.values())
        named = _name(trigger, "name") or _name(metadata, "metricName") or self.name
        own = self.shared.query(named, query, *([_NULLS] if zero and not said else []))
        metric = external(own, kind, threshold)
        if activation:
            metric["activation"] = activation
        if question.is_ratio and kind == "AverageValue":
            self.comments.append(Comment(("metrics", len(self.metrics)), _RATIO))
        self.metrics.append(metric)

    def _operand(self, trigger: Fields, question: _Question | None, server: str) -> None:
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
            self.operands.setdefault(name, FormulaTrigger(question.promql, question.nulls_are_zero))
            self.servers.add(server)

    def _cron(
        self, index: int, trigger: Fields, texts: Mapping[str, str], behavior: Fields
    ) -> None:
        kind = trigger.get("metricType")
        if kind not in (None, "", "AverageValue"):
            why = "of a cron trigger makes no sense but as AverageValue: leave it out"
            trigger.refused("metricType", why=why, kind="cron")
        try:
            if self.in_formula:
                raise ValueError(_CRON_IN_FORMULA)  # noqa: TRY301 - as any other reason
            self.shared.cron_triggers += 1
            if self.shared.cron_triggers > _MOST_CRON_TRIGGERS:
                raise ValueError(_TOO_MANY)  # noqa: TRY301 - as any other reason
            window, differs = cron.schedule_of(texts, behavior)
        except ValueError as error:
            self._lose(trigger, str(error), "cron")
            return
        if differs:
            trigger.different("metadata", "desiredReplicas", why=differs)
        self.schedules.append({"name": _name(trigger, "name") or f"cron-{index}", **window})

    def _other(self, trigger: Fields) -> None:
        kind = _name(trigger, "type") or "unknown"
        # It counts as named, though it needs nothing.
        self.authentications.find(trigger.within("authenticationRef"), self.namespace)
        proposal = exporters.proposal_for(kind, trigger.within("metadata"))
        why = f"it is not read from Prometheus: {exporters.instead_of(kind)}"
        if proposal is None or self.in_formula:
            self._lose(trigger, why, kind)
            return
        own = self.shared.query(
            _name(trigger, "name") or f"{self.name}-{kind}",
            proposal.query,
            f"a proposal in place of a trigger of type {kind}: check the metric and its labels",
        )
        metric = external(own, "AverageValue", proposal.value)
        if proposal.activation:
            metric["activation"] = proposal.activation
        self.metrics.append(metric)
        confirm = f"the query {own} replaces it: check it, then remove this entry"
        self._lose(trigger, f"{why}; {confirm}", kind)

    def _lose(self, trigger: Fields, why: str, kind: str) -> None:
        trigger.refused(why=why, kind=kind)
        self.lost.append(kind)


def _name(fields: Fields, key: str) -> str:
    """Return a name given by a person, in the form for the configuration; empty for any other."""
    name = fields.peek(key)
    return name if isinstance(name, str) and _PLAIN.fullmatch(name) else ""


def _number(metadata: Fields, texts: Mapping[str, str], key: str) -> int | float | None:
    """Return a number; None without one, or if it is refused."""
    text = texts.get(key)
    number = None if text is None else parsed(text)
    if text is not None and number is None:
        found = placeholder(text)
        why = not_filled_in(found) if found else "is not a number, which KEDA needs"
        metadata.refused(key, why=why, kind="prometheus")
    return number


def _question(metadata: Fields, texts: Mapping[str, str]) -> _Question | None:
    """Return the query of a trigger; a missing query is refused, and None."""
    # The default is true.
    nulls_are_zero = not is_false(texts.get("ignoreNullValues"))
    text = texts.get("query")
    if text is None:
        metadata.refused("query", why=_REQUIRED, kind="prometheus")
        return None
    promql = tidied(text) if "\n" in text else text
    nan, is_single, ratio, problem = True, False, False, ""
    try:
        tree = parse(promql)
    except ValueError as error:
        problem = f"its PromQL is not understood: {error}; correct it, and delete this entry"
    else:
        nan, is_single, ratio = may_be_nan(tree), is_one_value(tree), is_ratio(tree)
    if found := placeholder(text):
        problem = not_filled_in(found)
    if problem:
        metadata.refused("query", why=problem, kind="prometheus")
    else:
        said = [_NULLS_IN_SHORT, *([_NAN_IN_SHORT] if nan else [])] if nulls_are_zero else []
        why = "; ".join([*said, *([] if is_single else [_SEVERAL])])
        if why:
            metadata.different("query", why=why)
    return _Question(promql, nulls_are_zero, nan, ratio)


def _target(
    trigger: Fields, texts: Mapping[str, str], question: _Question
) -> tuple[str, int | float | None]:
    """Return the type and value of the metric's target; None if it is refused."""
    metadata = trigger.within("metadata")
    kind = trigger.get("metricType") or "AverageValue"
    if kind not in ("AverageValue", "Value"):
        trigger.refused("metricType", why=_NOT_EXTERNAL, kind="prometheus")
    number = _number(metadata, texts, "threshold")
    if "threshold" not in texts:
        metadata.refused("threshold", why=_REQUIRED, kind="prometheus")
    elif number is not None and number < _SMALLEST:
        metadata.refused("threshold", why=_TOO_SMALL, kind="prometheus")
        number = None
    elif number is not None and kind == "AverageValue" and question.is_ratio:
        metadata.different("threshold", why=_RATIO)
    return str(kind), number


def _of_resource(resource: str, trigger: Fields, texts: Mapping[str, str]) -> dict[str, object]:
    """Convert a trigger; an invalid value is refused, and its target is undecided."""
    target = _usage(resource, trigger, texts)
    container = texts.get("containerName")
    if container is None:
        return {"type": "Resource", "resource": {"name": resource, "target": target}}
    source = {"name": resource, "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": source}


def _usage(resource: str, trigger: Fields, texts: Mapping[str, str]) -> dict[str, object]:
    metadata = trigger.within("metadata")
    beside, within = trigger.get("metricType"), texts.get("type")
    if beside and within:
        metadata.refused("type", why=_BOTH, kind=resource)
    elif within:
        metadata.different("type", why=_OLD)
    kind = beside or within or "Utilization"
    problem, value = _value(kind, texts.get("value"))
    if problem:
        place = () if value is not None else ("value",)
        (trigger if value is not None else metadata).refused(*place, why=problem, kind=resource)
        return {"type": kind} if value is None else {"type": "Utilization"}
    if not beside and not within:
        metadata.different("value", why=_NEITHER)
    return {"type": kind, "averageUtilization" if kind == "Utilization" else "averageValue": value}


def _value(kind: object, text: str | None) -> tuple[str, object]:
    """Return what is wrong with a value, or nothing and the value."""
    if text is None:
        return "is required: KEDA fails without it", None
    if found := placeholder(text):
        return not_filled_in(found), None
    if kind == "Utilization":
        number = parsed(text)
        right = isinstance(number, int) and number > 0
        return ("", number) if right else (_NO_PERCENTAGE, None)
    if kind == "AverageValue":
        return ("", text) if _is_positive(text) else (_NO_QUANTITY, None)
    return _NO_TYPE, text


def _is_positive(text: str) -> bool:
    try:
        return quantities.parse_quantity(text) > 0
    except ValueError:
        return False
