"""PromqlAutoscaler objects: targets that are in the cluster, in addition to targets of files.

An object is the spec of a target in its own namespace. What it may use is in `objects` of the
configuration: servers, queries by name, and limits. It has no URL, header or secret.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import ValidationError

from autoscaler.config import durations
from autoscaler.config.checks import check_value, resources_by_server
from autoscaler.config.conversion import Shared, queries_of, target_of
from autoscaler.config.documents import Location, child, describe, path_of
from autoscaler.config.error_messages import Names, findings_of
from autoscaler.config.namespace_matchers import Matchers, restricted
from autoscaler.config.problems import Finding, one_per_place
from autoscaler.config.rule_forms import Context
from autoscaler.config.settings import DEFAULT_SERVER, ClusterSettings, Config, ObjectsSettings
from autoscaler.config.spec_model import ObjectSpecModel
from autoscaler.core.target import Target, TargetName

GROUP, VERSION = "autoscaling.promql.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND, PLURAL = "PromqlAutoscaler", "promqlautoscalers"

MOST_BYTES = 1 << 16
"""The most bytes of a spec that is read, as JSON."""
MOST_ENTRIES = 50
"""The most entries of a list or mapping in a spec, as in the schema of the API server."""
LONGEST_QUERY = 8192
"""The most characters of a PromQL expression in an object, as in the schema."""
LONGEST_TEXT = 1024
"""The same of other texts."""
DEEPEST = 32
"""The deepest place in a spec; the schema has less."""

_FREE_NAMES = frozenset({"matchLabels"})
"""Keys to mappings of the user's own names, which may be called `query` or `server`."""
_MOST_TOLD = 5
"""The most faults of an object in one message."""
_MOST_SHARED = 4096


class RefusalReason(Enum):
    """Why an object is not in force: the reason of its condition Ready."""

    INVALID = "Invalid"
    FORBIDDEN = "NotPermitted"
    """It uses something that the administrator has not permitted."""
    QUOTA = "QuotaExceeded"
    CONFLICT = "WorkloadConflict"
    """Another target scales its workload."""


class ObjectRefusal(NamedTuple):
    """Why an object is not in force, as a sentence."""

    reason: RefusalReason
    message: str


@dataclass(frozen=True, slots=True)
class ScalingObject:
    """A PromqlAutoscaler as the API server sent it."""

    namespace: str
    name: str
    spec: object
    """JSON that nothing has checked."""
    cluster: str = ""

    @property
    def key(self) -> str:
        """Its name for messages: namespace/name, with clusters cluster/namespace/name."""
        own = f"{self.namespace}/{self.name}"
        return f"{self.cluster}/{own}" if self.cluster else own


class ObjectPolicy:
    """Makes targets of objects, as one configuration permits."""

    def __init__(self, config: Config) -> None:
        self.settings: ObjectsSettings = config.objects
        self._config = config
        self._clusters = {cluster.name: cluster for cluster in config.clusters or ()}
        named = config.query_models.named
        permitted = {name: named[name] for name in self.settings.queries if name in named}
        self._queries = queries_of(config, replace(config.query_models, named=permitted))
        self._resources = resources_by_server(
            config.query_models.resources,
            {name: server.resource_queries for name, server in config.prometheus.servers.items()},
        )
        self._shared: Shared = lru_cache(_MOST_SHARED)(lambda value: value)

    def target(self, obj: ScalingObject) -> Target | ObjectRefusal:
        """Return the target of an object, or why it is not in force."""
        found = self.judged(obj)
        return found if isinstance(found, Target) else _refusal(*found, obj.spec)

    def judged(self, obj: ScalingObject) -> Target | tuple[RefusalReason, list[Finding]]:
        """Return the target of an object, or the faults of its spec."""
        findings = [*outsized(obj.spec)]
        if findings:
            return RefusalReason.INVALID, findings
        cluster = self._clusters.get(obj.cluster)
        spec, unsafe = _with_matchers(obj.spec, self._matchers(obj.namespace, cluster))
        checked = checked_spec(spec, self._context(spec, cluster))
        findings = [*([] if isinstance(checked, ObjectSpecModel) else checked), *unsafe]
        if findings or not isinstance(checked, ObjectSpecModel):
            return RefusalReason.INVALID, findings
        forbidden = [*self._forbidden_servers(obj.spec, cluster)]
        if forbidden:
            return RefusalReason.FORBIDDEN, forbidden
        if over := self._over_quota(checked):
            return RefusalReason.QUOTA, over
        queries, base = self._queries, self._config.sync_period
        if checked.queries:
            queries = replace(queries, named={**queries.named, **checked.queries}, _made={})
        period = max(base, self.settings.quotas.sync_period)
        target = target_of(checked, obj.namespace, cluster, queries, period, self._shared)
        return replace(target, object_name=obj.name)

    def _matchers(self, namespace: str, cluster: ClusterSettings | None) -> Matchers:
        """Return the matchers of every selector in an object's PromQL; empty without a limit."""
        if namespace in self.settings.unrestricted_namespaces:
            return ()
        of_cluster = () if cluster is None else tuple(sorted(cluster.series_labels.items()))
        return (("namespace", namespace), *of_cluster)

    def _context(self, spec: object, cluster: ClusterSettings | None) -> Context:
        own = child(spec, "queries")
        queries: dict[str, object] = {**self._queries.named}
        queries |= own if isinstance(own, Mapping) else {}
        clusters = {} if cluster is None else {cluster.name: cluster.prometheus}
        return Context(None, Names(queries), self._resources, clusters)

    def _forbidden_servers(
        self, spec: object, cluster: ClusterSettings | None
    ) -> Iterator[Finding]:
        permitted = {*self.settings.servers}
        if cluster is not None and cluster.prometheus is not None:
            permitted.add(cluster.prometheus)
        elif DEFAULT_SERVER not in permitted and child(spec, "server") is None:
            listed = ", ".join(sorted(permitted))
            yield Finding(("server",), f"is missing: permitted are {listed}", show_value=False)
        for location, key, value in _texts(spec):
            if key == "server" and value not in permitted:
                listed = ", ".join(sorted(permitted))
                yield Finding(location, f"is not permitted to objects; permitted are {listed}")

    def _over_quota(self, spec: ObjectSpecModel) -> list[Finding]:
        most, shortest = self.settings.quotas.max_replicas, self.settings.quotas.sync_period
        counts: list[tuple[Location, int | None]] = [(("maxReplicas",), spec.max_replicas)]
        counts += [
            (("schedules", index, "maxReplicas"), each.max_replicas)
            for index, each in enumerate(spec.schedules)
        ]
        if not isinstance(spec.paused, bool | str):
            counts.append((("paused", "replicas"), spec.paused.replicas))
        over = [
            Finding(location, f"must be at most {most}, the quota of the namespace")
            for location, count in counts
            if count is not None and count > most
        ]
        if spec.sync_period is not None and spec.sync_period < shortest:
            least = durations.format_seconds(shortest)
            message = f"must be at least {least}, the quota of the namespace"
            over.append(Finding(("syncPeriod",), message))
        return over


def checked_spec(spec: object, context: Context) -> ObjectSpecModel | list[Finding]:
    """Check the form of a spec and the rules between its fields."""
    findings: list[Finding] = []
    model: ObjectSpecModel | None = None
    if not isinstance(spec, Mapping):
        return [Finding((), "must be a mapping with scaleTargetRef, maxReplicas and metrics")]
    try:
        model = ObjectSpecModel.model_validate(spec)
    except ValidationError as error:
        findings += findings_of(error, ObjectSpecModel)
    findings += check_value(spec, ObjectSpecModel, context)
    findings += _shorthands(spec)
    return findings if findings or model is None else model


def outsized(spec: object) -> Iterator[Finding]:
    """Find what is deeper, longer or larger than the schema of the API server permits."""
    stack: list[tuple[Location, object]] = [((), spec)]
    while stack:
        location, value = stack.pop()
        if len(location) > DEEPEST:
            yield Finding(location[:3], f"is more than {DEEPEST} levels deep", show_value=False)
            return
        if isinstance(value, str):
            most = LONGEST_QUERY if location[-1:] == ("query",) else LONGEST_TEXT
            if len(value) > most:
                message = f"has {len(value):,} characters, and may have {most:,}"
                yield Finding(location, message, show_value=False)
        elif isinstance(value, Mapping | list):
            if len(value) > MOST_ENTRIES:
                message = f"has {len(value):,} entries, and may have {MOST_ENTRIES}"
                yield Finding(location, message, show_value=False)
                continue
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            stack += [((*location, key), item) for key, item in items]


def _texts(spec: object) -> Iterator[tuple[Location, str, str]]:
    """Yield the texts at keys of an object that is not outsized: place, key and text."""
    stack: list[tuple[Location, object]] = [((), spec)]
    while stack:
        location, value = stack.pop()
        items = value.items() if isinstance(value, Mapping) else ()
        for key, item in items:
            if isinstance(item, str):
                yield (*location, key), key, item
            elif key not in _FREE_NAMES:
                stack.append(((*location, key), item))
        if isinstance(value, list):
            stack += [((*location, index), item) for index, item in enumerate(value)]


_QUERIES: frozenset[Location] = frozenset(
    {
        ("minReplicasQuery",),
        ("maxReplicasQuery",),
        ("holdScaleDownQuery",),
        ("scaleDown", "podDeletionCost"),
    }
)


def _shorthands(spec: Mapping[str, object]) -> Iterator[Finding]:
    """Find PromQL in place of a mapping: the schema of an object has one form of each field."""
    message = "must be a mapping with `query` in an object"
    for location, _, _ in _texts(spec):
        metric = location[:1] == ("metrics",) and location[-1] == "query"
        of_metric = metric and location[-2] in {"metric", "resource", "containerResource"}
        if of_metric or location[:-1] == ("queries",) or location in _QUERIES:
            yield Finding(location, message)


def _with_matchers(spec: object, matchers: Matchers) -> tuple[Any, list[Finding]]:
    """Return a spec whose PromQL selects only series with the matchers, and what is not safe."""
    if not matchers:
        return spec, []
    unsafe: list[Finding] = []

    def copied(value: object, location: Location) -> object:
        if isinstance(value, list):
            return [copied(item, (*location, index)) for index, item in enumerate(value)]
        if not isinstance(value, Mapping) or location[-1:] == ("matchLabels",):
            return value
        return {key: of_key(key, item, (*location, key)) for key, item in value.items()}

    def of_key(key: str, item: object, location: Location) -> object:
        if key != "query" or not isinstance(item, str):
            return copied(item, location)
        try:
            return restricted(item, matchers)
        except ValueError as error:
            message = f"cannot be restricted to the namespace: {error}"
            unsafe.append(Finding(location, message, show_value=False))
            return item

    return copied(spec, ()), unsafe


def _refusal(reason: RefusalReason, findings: list[Finding], spec: object) -> ObjectRefusal:
    told = one_per_place(findings)
    sentences = []
    for finding in told[:_MOST_TOLD]:
        value = child(spec, *finding.location) if finding.location else None
        got = f" (got {describe(value)})" if finding.show_value and value is not None else ""
        sentences.append(f"{path_of(('spec', *finding.location))}: {finding.message}{got}")
    left = len(told) - _MOST_TOLD
    sentences += [f"and {left} more"] if left > 0 else []
    return ObjectRefusal(reason, "; ".join(sentences))


def conflict(target: Target, other: str) -> ObjectRefusal:
    """Return the refusal of an object whose workload another target scales already."""
    parts = TargetName.parse(target.key)
    message = f"{parts.kind} {parts.name} is scaled by {other} already"
    return ObjectRefusal(RefusalReason.CONFLICT, message)
