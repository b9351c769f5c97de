"""Converts a HorizontalPodAutoscaler of any version to a target."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from autoscaler.config.documents import child, describe
from autoscaler.config.promql_parser import parse
from autoscaler.core.spec import SOURCES
from autoscaler.migrate.adapter_queries import (
    DescribedObject,
    MetricType,
    ResolvedQuery,
    UnresolvedQuery,
)
from autoscaler.migrate.drafts import Comment, Query, SharedSettings, TargetDraft
from autoscaler.migrate.fields import Fields, json_of, not_filled_in, placeholders
from autoscaler.migrate.other_adapters import annotated_query, served_by, tool_of
from autoscaler.migrate.promql_answers import A_RATIO_IS_DIVIDED, is_ratio

VERSIONS = ("autoscaling/v1", "autoscaling/v2beta1", "autoscaling/v2beta2", "autoscaling/v2")

_ALPHA = "autoscaling.alpha.kubernetes.io/"
_OLD_KEYS = ("metricName", "targetAverageUtilization", "targetAverageValue", "targetValue")
_CPU = "targetCPUUtilizationPercentage"

_APPS = {kind.lower(): kind for kind in ("Deployment", "StatefulSet", "ReplicaSet")}
_NOT_APPS = {"", "app", "extensions"}
"""Groups without workloads for the HPA controller: Deployments were once in extensions."""

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-z_][a-z0-9_]*")

PATCH = (
    "it has no spec.scaleTargetRef, as a patch of kustomize has not: import what it is applied to, "
    "as `kubectl kustomize DIRECTORY` prints it"
)
_OF_V2 = (
    "{} has no such key, and its API server refuses it or leaves it out; it is read as in "
    "autoscaling/v2"
)
_RATIO = A_RATIO_IS_DIVIDED.format("the HPA")
_GOOGLE = "prometheus.googleapis.com|"
_CONFIRM = "its query is a guess from the name: correct it in `queries`, then delete this entry"


Resolve = Callable[
    [MetricType, str, DescribedObject | None, object], ResolvedQuery | UnresolvedQuery
]
"""Finds the query of a metric by its type, its name, its object and a selector."""


@dataclass
class _HpaReading:
    """One HorizontalPodAutoscaler while it is read."""

    fields: Fields
    version: str
    shared: SharedSettings
    resolve: Resolve
    draft: TargetDraft

    def differs(self, at: Fields, *keys: str | int, why: str, place: tuple[str | int, ...]) -> None:
        """Note a difference in the report, and above the ``place`` in the target."""
        at.different(*keys, why=why)
        self.draft.comments.append(Comment(place, why))


def draft_of(fields: Fields, shared: SharedSettings, resolve: Resolve) -> TargetDraft:
    """Convert a HorizontalPodAutoscaler."""
    spec = fields.within("spec")
    if not isinstance(spec.peek("scaleTargetRef"), dict):
        return TargetDraft({}, refusal=PATCH)
    draft = TargetDraft({})
    version = str(fields.peek("apiVersion") or VERSIONS[-1])
    reading = _HpaReading(fields, version, shared, resolve, draft)
    draft.target["scaleTargetRef"] = _reference(reading)
    # In the order of the API's documents.
    for key in ("minReplicas", "maxReplicas"):
        value = spec.get(key)
        if value is not None:
            draft.target[key] = value
    metrics: object = list(_metrics(reading))
    if not metrics and spec.peek("metrics") is not None:
        metrics = spec.get("metrics")  # Other types are refused with a reason.
    if metrics or metrics == {}:
        draft.target["metrics"] = metrics
    behavior = _behavior(reading)
    if behavior is not None:
        draft.target["behavior"] = behavior
    for location, found in placeholders(spec.value):
        spec.refused(*location, why=not_filled_in(found))
    return draft


def _reference(reading: _HpaReading) -> dict[str, object]:
    reference = reading.fields.within("spec", "scaleTargetRef")
    result = {key: reference.get(key) for key in ("apiVersion", "kind", "name")}
    kind, version = result["kind"], result["apiVersion"]
    place = ("scaleTargetRef",)
    usual = _APPS.get(kind.lower()) if isinstance(kind, str) else None
    group = str(version or "").rpartition("/")[0]
    is_known = usual is not None and group in {*_NOT_APPS, "apps"}
    if is_known and usual != kind:
        why = f"the HPA finds no kind {describe(kind)}; {usual} is meant"
        reading.differs(reference, "kind", why=why, place=place)
        result["kind"] = usual
    if is_known and group in _NOT_APPS:
        given = f"apiVersion is {describe(version)}" if version else "it has no apiVersion"
        why = f"{given}, where there is no {usual}; apps/v1 is meant"
        reading.differs(reference, "apiVersion", why=why, place=place)
        result["apiVersion"] = "apps/v1"
    return {key: value for key, value in result.items() if value is not None}


def _metrics(reading: _HpaReading) -> Iterator[object]:
    """Yield the metrics in the API server's order: of the annotation, the list, cpu of v1."""
    spec, v1 = reading.fields.within("spec"), reading.version == VERSIONS[0]
    listed = list(_annotated(reading, "metrics", list).each())
    if spec.peek("metrics") is not None:
        if v1:
            reading.differs(
                spec, "metrics", why=_OF_V2.format("autoscaling/v1"), place=("metrics",)
            )
        listed += spec.within("metrics").each()
    for number, metric in enumerate(listed):
        yield _metric(reading, metric, number)
    percent = spec.get(_CPU)
    if percent is not None:
        if not v1:
            why = f"{reading.version} has no such key; it is read as in autoscaling/v1"
            reading.differs(spec, _CPU, why=why, place=("metrics", len(listed)))
        usage = {"type": "Utilization", "averageUtilization": percent}
        yield {"type": "Resource", "resource": {"name": "cpu", "target": usage}}


def _behavior(reading: _HpaReading) -> object:
    behavior = reading.fields.within("spec").get("behavior")
    if behavior is not None and reading.version in VERSIONS[:2]:
        spec, why = reading.fields.within("spec"), _OF_V2.format(reading.version)
        reading.differs(spec, "behavior", why=why, place=("behavior",))
    annotated = _annotated(reading, "behavior", dict)
    return annotated.value or behavior


def _annotated(reading: _HpaReading, name: str, kind: type) -> Fields:
    """Return the value of an annotation for a key that older versions lack."""
    annotations = reading.fields.within("metadata", "annotations")
    key = f"{_ALPHA}{name}"
    text = annotations.peek(key)
    if text is None:
        return annotations.parsed(key, value=None)
    if reading.version not in VERSIONS[: 2 if name == "behavior" else 1]:
        annotations.ignored(key, why=f"{reading.version} does not read it: its spec has `{name}`")
        return annotations.parsed(key, value=None)
    value = json_of(text)
    if not isinstance(value, kind):
        why = f"invalid JSON of {name}, which the API server ignores"
        reading.differs(annotations, key, why=f"the annotation {key}: {why}", place=(name,))
        return annotations.parsed(key, value=None)
    annotations.carried(key)
    return annotations.parsed(key, value=value)


def _metric(reading: _HpaReading, metric: Fields, number: int) -> dict[str, object]:
    kind = metric.peek("type")
    key = SOURCES.get(kind) if isinstance(kind, str) else None
    source = metric.within(key) if key else metric
    if key is None or not source.value:
        metric.carried()  # Every configuration refuses it, and says why.
        return dict(metric.value)
    metric.get("type")
    of_v2 = not any(source.peek(key) is not None for key in _OLD_KEYS)
    if not of_v2 and reading.version in VERSIONS[2:]:
        why = f"{reading.version} refuses a metric like this; it is read as in autoscaling/v2beta1"
        reading.differs(source, why=why, place=("metrics", number))
    written = _of_v2(source) if of_v2 else _source(source, key)
    if kind in get_args(MetricType) and isinstance(written.get("metric"), dict):
        served = _ServedMetric(reading, cast("MetricType", kind), source, number, of_v2=of_v2)
        written |= served.resolved(written)
        if served.is_annotated and kind == "Object":
            written.pop("describedObject", None)  # The query gives one value, not of an object.
            kind, key = "External", "external"
    return {"type": kind, key: written}


@dataclass
class _ServedMetric:
    """A metric that an adapter serves, and that needs a query."""

    reading: _HpaReading
    kind: MetricType
    source: Fields
    number: int
    of_v2: bool
    is_annotated: bool = False

    def resolved(self, written: Mapping[str, object]) -> dict[str, object]:
        """Return `metric` with the name of its query, and its selector for that query."""
        keys = ("metric", "name") if self.of_v2 else ("metricName",)
        name, selector = self.source.peek(*keys), child(written, "metric", "selector")
        if not isinstance(name, str) or not name:
            return {}
        described = self._described(written.get("describedObject"))
        shared = self.reading.shared
        annotations = self.reading.fields.within("metadata", "annotations")
        annotated = annotated_query(annotations, self.kind, name, selector)
        if annotated is not None:
            self.is_annotated = True
            promql, url = annotated
            server = shared.server({"url": url}) if url else ""
            query = {"query": promql, "server": server} if server else promql
            return {"metric": {"name": shared.query(name, query)}}
        found = self.reading.resolve(self.kind, name, described, selector)
        if isinstance(found, UnresolvedQuery):
            guess = _guess(self.kind, name, "" if described is None else described.kind)
            tool = tool_of(annotations, self.kind, name, selector)
            sentence = served_by(tool) if tool else found.sentence
            self.source.refused(*keys, why=f"{sentence}; {_CONFIRM}", kind=self.kind)
            chosen = {} if selector is None else {"selector": selector}
            return {"metric": {"name": shared.query(name, guess), **chosen}}
        if found.notes:
            self.source.different(*keys, why="; ".join(found.notes))
        average = child(written, "target", "averageValue")
        if self.kind != "Pods" and average is not None and _is_ratio(found.query):
            place = ("metrics", self.number)
            self.reading.differs(self.source, self._average, why=_RATIO, place=place)
        own = shared.query(found.name, found.query, *found.notes)
        return {"metric": {"name": own, **({"selector": found.selector} if found.selector else {})}}

    @property
    def _average(self) -> str:
        """The key of an average."""
        old = "averageValue" if self.kind == "Object" else "targetAverageValue"
        return "target" if self.of_v2 else old

    @staticmethod
    def _described(of: object) -> DescribedObject | None:
        if not isinstance(of, dict):
            return None
        version, kind, name = (str(of.get(key) or "") for key in ("apiVersion", "kind", "name"))
        return DescribedObject(version.rpartition("/")[0], kind, name)


def _of_v2(source: Fields) -> dict[str, object]:
    """Copy a source of autoscaling/v2, which is checked later."""
    return {
        key: copy.deepcopy(source.get(key)) for key in source.value if source.get(key) is not None
    }


def _source(source: Fields, key: str) -> dict[str, object]:
    """Convert a source of autoscaling/v2beta1 to autoscaling/v2."""
    new = {key: source.get(key) for key in ("name", "container") if source.peek(key) is not None}
    if key == "object":
        new["describedObject"] = source.get("target")
    if source.peek("metricName") is not None:
        selector = source.get("metricSelector" if key == "external" else "selector")
        chosen = {} if selector is None else {"selector": selector}
        new["metric"] = {"name": source.get("metricName"), **chosen}
    average = source.get("averageValue" if key == "object" else "targetAverageValue")
    percent, value = source.get("targetAverageUtilization"), source.get("targetValue")
    if percent is not None:
        new["target"] = {"type": "Utilization", "averageUtilization": percent}
    elif average is not None:
        new["target"] = {"type": "AverageValue", "averageValue": average}
        if value is not None:
            source.ignored("targetValue", why="averageValue, next to it, counts")
    else:
        new["target"] = {"type": "Value", "value": value}
    return new


def _is_ratio(query: Query) -> bool:
    promql = query if isinstance(query, str) else query.get("query")
    try:
        return isinstance(promql, str) and is_ratio(parse(promql))
    except ValueError:
        return False


def _guess(kind: str, name: str, described_kind: str) -> str:
    """Return PromQL for a metric without a rule, correct if its series has the same name."""
    if name.startswith(_GOOGLE):  # Its adapter names a series PREFIX|NAME|KIND.
        name = name.split("|")[1]
    series = name if _METRIC_NAME.fullmatch(name) else f"{{__name__={json.dumps(name)}}}"
    if kind == "Pods":
        return f"sum by (namespace, pod) ({series})"
    of = described_kind.lower()
    return f"sum by (namespace, {of}) ({series})" if _LABEL_NAME.fullmatch(of) else series
