"""The rules between fields, in one table: the findings and the JSON Schema are both made from it.

Rules read the plain document, not the models, so that they are reported in one go with mistakes of
shape: where a field has the wrong shape, a rule about it is silent.
"""

import functools
import importlib.util
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import combinations
from types import NoneType
from typing import NamedTuple, TypeAlias

from pydantic import BaseModel, JsonValue

from autoscaler.config import durations
from autoscaler.config import spec_model as model
from autoscaler.config.documents import child, entries
from autoscaler.config.error_messages import closest, suggestion
from autoscaler.config.fields import Address, listen_address
from autoscaler.config.models import Model, fields_by_key
from autoscaler.config.prometheus_connection import (
    AzureAdSettings,
    PrometheusSettings,
    SigV4Settings,
    Tls,
)
from autoscaler.config.promql import is_condition
from autoscaler.config.settings import (
    DEFAULT_SERVER,
    LISTEN,
    ClusterSettings,
    LeaderElection,
    MainFile,
    NamedServer,
    WebAuth,
    WebTls,
)
from autoscaler.core.observation import HOLD_QUERY
from autoscaler.core.spec import SOURCES

Schema: TypeAlias = dict[str, JsonValue]
Fields: TypeAlias = Mapping[str, object]
"""A mapping of the document as it is written; null in it counts as absent."""

_PER_POD = ("Resource", "ContainerResource", "Pods")
_LISTED, _UNLISTED = ("In", "NotIn"), ("Exists", "DoesNotExist")
"""The operators that take values, and the others."""

SIGN_IN = ("bearerTokenFile", "basicAuth", "oauth2", "sigv4", "googleIam", "azuread")
"""The ways to sign in to a Prometheus, of which a connection has one."""

_AUTHORIZATION = "^[Aa][Uu][Tt][Hh][Oo][Rr][Ii][Zz][Aa][Tt][Ii][Oo][Nn]$"
_EXTRAS = (("sigv4", "botocore"), ("googleIam", "google.auth"), ("azuread", "azure.identity"))
"""The ways that need an extra, each with a module of it."""

_MOST_CLUSTERS_NAMED = 8
_IDENTITIES = ("managedIdentity", "workloadIdentity", "oauth")
_CERTIFICATES = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_JITTER = 1.2
"""By so much a try to renew may come later than `retryPeriod` (client-go's JitterFactor)."""

_STOPS = ": a leader stops before another may start"
_ENDS = ": else one late try ends the leadership"
_ZERO = (
    "0 needs at least one metric of type Object or External: without pods there is nothing else "
    "to measure; right is 1, or such a metric"
)
_NO_ZERO_OF_PODS = (
    "`empty: zero` is for values, and this one gives samples of pods, of which none is made up: "
    "leave it out"
)


class Context(NamedTuple):
    """What rules compare a mapping with."""

    pod_namespace: str | None = None
    """Of the pod that we run in; None outside a pod."""
    queries: Mapping[str, object] | None = None
    """`queries` of all files; None where they are not looked up."""
    resources: Mapping[str, AbstractSet[str]] | None = None
    """By Prometheus server the resources with a query there; None where none are looked up."""
    clusters: Mapping[str, str | None] | None = None
    """The names of `clusters`, each with its default server; None where they are not looked up."""
    target: Mapping[str, object] = {}
    """The target that the mapping is in, if it is in one."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table, for the mappings that are validated against one model."""

    at: str
    """The key that the finding is at; empty for the mapping itself."""
    broken: Callable[[Fields, Context], object]
    """Returns what the sentence shows for ``{}``, two as a tuple; falsy where all is well."""
    sentence: str
    """With two braces for each that is shown."""
    schema: Schema = field(default_factory=dict)
    """The same for the mapping as JSON Schema, as far as that can say it."""
    fixed_by: Sequence[str] = ()
    """Paths in the mapping any of which would have fixed the fault."""
    shown: bool = False
    """Whether the finding shows the value at the place."""


def _with(key: str, value: Schema) -> Schema:
    return {"required": [key], "properties": {key: value}}


def _has(key: str) -> Schema:
    return _with(key, {"not": {"type": "null"}})


def _where(key: str, *values: JsonValue) -> Schema:
    return _with(key, {"enum": [*values]})


def _if(condition: Schema, then: Schema) -> Schema:
    return {"if": condition, "then": then}


def _properties(**schemas: JsonValue) -> Schema:
    return {"properties": schemas}


def _not_both(key: str, other: str) -> Schema:
    return {"not": {"allOf": [_has(key), _has(other)]}}


def _null(key: str) -> Schema:
    return {"properties": {key: {"type": "null"}}}


_WITHOUT_PODS = _with(
    "metrics",
    {"type": "array", "contains": _properties(type={"enum": ["Object", "External"]})},
)


def _integer(fields: Fields, key: str, default: int | None = None) -> int | None:
    value = fields.get(key)
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _given(fields: Fields, *keys: str) -> bool:
    return all(fields.get(key) is not None for key in keys)


def _one_of(fields: Fields, key: str, *values: str) -> object:
    return fields.get(key) if fields.get(key) in values else None


def _several(fields: Fields, keys: Sequence[str]) -> str | None:
    given = [key for key in keys if _given(fields, key)]
    return f"{', '.join(given[:-1])} and {given[-1]}" if len(given) > 1 else None


def _needs(key: str, other: str) -> Rule:
    return Rule(
        key,
        lambda fields, _: fields.get(key) and not fields.get(other),
        f"needs {other} beside it (the same file, if it holds both)",
        _if(_has(key), _has(other)),
    )


def _any_of(keys: Sequence[str], sentence: str) -> Rule:
    return Rule(
        "",
        lambda fields, _: not any(_given(fields, key) for key in keys),
        sentence,
        {"anyOf": [_has(key) for key in keys]},
        fixed_by=keys,
    )


def _only_one_of(keys: Sequence[str], sentence: str) -> Rule:
    return Rule(
        "",
        lambda fields, _: _several(fields, keys),
        sentence,
        {"allOf": [_not_both(*pair) for pair in combinations(keys, 2)]},
    )


def _time_rules(longer: str, shorter: str, factor: float, **at: str) -> Iterator[Rule]:
    """Yield rules that a time is longer than ``factor`` times another, at the first that is set."""

    def late(key: str, election: Fields, _: Context) -> tuple[str, str] | None:
        long, short = _seconds(election, longer), _seconds(election, shorter)
        if long is None or short is None or long > factor * short:
            return None
        written = next((one for one in at if election.get(one) is not None), None)
        both = durations.format_seconds(long), durations.format_seconds(short)
        return both if written == key else None

    for key, sentence in at.items():
        yield Rule(key, functools.partial(late, key), sentence, shown=True)


def _seconds(election: Fields, key: str) -> float | None:
    """Return a duration in seconds; None where it has the wrong form, which is reported as such."""
    value, usual = election.get(key), fields_by_key(LeaderElection)[key].default
    try:
        return float(usual) if value is None else durations.of(value)
    except ValueError:
        return None


def _only_per_pod(spec: Fields) -> bool:
    metrics = spec.get("metrics")
    return isinstance(metrics, list | tuple | NoneType) and all(
        # A type that is misspelt is reported as such; it may have been meant for another one.
        child(metric, "type") in _PER_POD
        for metric in metrics or ()
    )


def _too_few(spec: Fields) -> int | None:
    low, high = _integer(spec, "minReplicas", 1), _integer(spec, "maxReplicas")
    return low if low is not None and high is not None and 1 <= high < low else None


def _idle_replicas(target: Fields) -> int | None:
    idle = child(target, "idle")
    return _integer(idle, "replicas", 0) if isinstance(idle, Mapping) else None


def _too_few_awake(idle: Fields, context: Context) -> int | None:
    """Return minReplicas where idle.replicas is not less; 0 has a sentence of its own."""
    count, low = _integer(idle, "replicas", 0), _integer(context.target, "minReplicas", 1)
    return low if count is not None and low is not None and 1 <= low <= count else None


def _wakes_no_window(schedule: Fields, context: Context) -> tuple[int] | None:
    count, low = _idle_replicas(context.target), _integer(schedule, "minReplicas")
    return (count,) if count is not None and low is not None and 0 <= low <= count else None


def _window_without_pods(schedule: Fields, context: Context) -> bool:
    zero = _integer(schedule, "minReplicas") == 0
    return zero and _idle_replicas(context.target) is None and _only_per_pod(context.target)


def _window_upside_down(key: str, schedule: Fields, context: Context) -> tuple[str, int] | None:
    """Return whose bound contradicts the one at ``key`` of a window, and that bound.

    Where a window has both, the fault is at maxReplicas.
    """
    other, default = ("minReplicas", 1) if key == "maxReplicas" else ("maxReplicas", None)
    own, bound = _integer(schedule, key), _integer(schedule, other)
    whose = "its"
    if schedule.get(other) is None:
        whose, bound = "the target's", _integer(context.target, other, default)
    elif key == "minReplicas":
        return None
    if own is None or bound is None:
        return None
    wrong = own < bound if key == "maxReplicas" else own > bound
    return (whose, bound) if wrong else None


def _left(one: Fields) -> tuple[str, str]:
    field, kind, why = (one.get(key) for key in ("field", "type", "why"))
    of_type = f" (type {kind})" if kind else ""
    return f"{field or 'something'}{of_type}", str(why or "something")


def _repeated_name(around: Fields, key: str) -> object:
    names = [child(one, "name") for _, one in entries(around, key)]
    return next((name for name in names if isinstance(name, str) and names.count(name) > 1), None)


def _never_opens(schedule: Fields) -> bool:
    start, end = schedule.get("start"), schedule.get("end")
    return isinstance(start, str) and isinstance(end, str) and start.split() == end.split()


def _useless_activation(target: Fields) -> str:
    """Return the metrics with an activation where the target has no idle."""
    with_one = [
        f"metrics[{index}]"
        for index, metric in entries(target, "metrics")
        if child(metric, "activation") is not None and child(metric, "type") not in _PER_POD
    ]
    return "" if _given(target, "idle") else ", ".join(with_one[:3])


_APPS = {"Deployment": "deploy", "StatefulSet": "sts", "ReplicaSet": "rs"}
"""The kinds of the group apps that have a scale subresource, with kubectl's short names."""

_KINDS = {
    name: kind
    for kind, short in {**_APPS, "ReplicationController": "rc"}.items()
    for name in (kind.lower(), f"{kind.lower()}s", short)
}
_WITHOUT_SCALE = {"DaemonSet": "apps", "Job": "batch", "CronJob": "batch", "Pod": ""}
_SLIPS = {"", "app", "extensions"}
"""Groups that people write who mean apps, the Deployments' since Kubernetes 1.16."""


def group_of(ref: Fields) -> str | None:
    """Return the group of `apiVersion`, whose version is free as for the HPA; None without one."""
    version = ref.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) else None


def _kind(ref: Fields) -> str:
    kind = ref.get("kind")
    if not isinstance(kind, str):
        return ""
    usual = _KINDS.get(kind.lower(), kind)
    return usual if group_of(ref) in {*_SLIPS, "apps", None} else kind


def _is_scaled(ref: Fields) -> bool:
    return _WITHOUT_SCALE.get(_kind(ref), "none") != group_of(ref)


def _kind_fault(ref: Fields) -> str | None:
    kind = _kind(ref)
    if kind and kind != ref["kind"]:
        return f"must be {kind}, as in `kind` of its manifest"
    if _is_scaled(ref):
        return None
    return (
        "has no scale subresource, so that nothing can set its replicas; right is a Deployment, a "
        "StatefulSet or another kind that has one"
    )


def _kind_in_group(ref: Fields) -> str:
    kind = _kind(ref)
    return kind if _is_scaled(ref) and kind != "ReplicationController" else ""


def _missing_group(ref: Fields) -> str:
    kind = _kind_in_group(ref)
    if not kind or ref.get("apiVersion") is not None:
        return ""
    named = f"apps/v1 for a {kind}"
    return named if kind in _APPS else f"the group and version of {kind}, such as apps/v1"


def _group_fault(ref: Fields) -> str | None:
    kind, group = _kind_in_group(ref), group_of(ref)
    if not kind or group is None:
        return None
    if str(ref["apiVersion"]).startswith("/"):
        return "must name a group before the /, such as apps/v1"
    right = "be apps/v1" if kind in _APPS else f"name the group of {kind}, such as apps/v1"
    if group == "":
        return f"must {right}; only a ReplicationController is in the core group"
    return f"must be apps/v1 for a {kind}" if kind in _APPS and group in _SLIPS else None


def _other_source(metric: Fields, key: str) -> object:
    """Return the type, and the key of its source, where a source belongs to another type."""
    kind = metric.get("type")
    own = SOURCES.get(kind) if isinstance(kind, str) else None
    return (kind, own) if _given(metric, key) and own not in {None, key} else None


def _source_rules(kind: str, key: str) -> Iterator[Rule]:
    yield Rule(
        key,
        lambda metric, _: metric.get("type") == kind and not _given(metric, key),
        f"is missing: type {kind} needs its source here",
        _if(_where("type", kind), _has(key)),
        fixed_by=(key,),
    )
    yield Rule(
        key,
        lambda metric, _: _other_source(metric, key),
        "does not belong to type {}: keep only `{}`, or change the type",
        _if(_where("type", *(other for other in SOURCES if other != kind)), _null(key)),
    )


def _target_rules(*allowed: str, exclusive: bool = True) -> Sequence[Rule]:
    """Return the rules of a target's values; its type is not compared with them, as in the API."""
    either = " or ".join(allowed)
    forms = (f"{{type: {name[0].upper()}{name[1:]}, {name}: NUMBER}}" for name in allowed)
    taken = " or ".join(forms)

    def given(source: Fields) -> list[str] | None:
        target = source.get("target")
        if not isinstance(target, Mapping):
            return None
        return [name for name in allowed if target.get(name) is not None]

    def utilization(source: Fields) -> bool:
        kind, percent = (child(source, "target", key) for key in ("type", "averageUtilization"))
        other = "averageUtilization" not in allowed
        return other and (kind == "Utilization" or percent is not None)

    each = [_has(name) for name in allowed]
    return (
        Rule(
            "target",
            lambda source, _: given(source) == [] and utilization(source) and taken,
            "Utilization is for Resource and ContainerResource metrics only: write {}",
        ),
        Rule(
            "target",
            lambda source, _: given(source) == [],
            f"{either} is missing: what to hold the metric at",
            _properties(target={"oneOf" if exclusive else "anyOf": [*each]}),
            fixed_by=[f"target.{name}" for name in allowed],
        ),
        Rule(
            "target",
            lambda source, _: exclusive and len(given(source) or ()) > 1,
            f"takes one of {either}, not both",
        ),
    )


def _unknown(source: Fields, names: Collection[str] | None) -> str | None:
    """Return which names there are, where that of a source without a query of its own is none."""
    name = source.get("name")
    if names is None or not isinstance(name, str) or source.get("query") is not None:
        return None
    return None if name in names else suggestion(name, names)


def clusters_named(target: Fields) -> list[str]:
    """Return the names of clusters that a target names, of those that are texts."""
    names = (target.get("cluster"), *(name for _, name in entries(target, "clusters")))
    return [name for name in names if isinstance(name, str) and name.strip()]


def _unknown_cluster(key: str, target: Fields, context: Context) -> tuple[str, str] | None:
    """Return the first name at a key that no cluster has, and what is right."""
    known = context.clusters
    if known is None or target.get(key) is None:
        return None
    names = clusters_named({key: target[key]})
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return None
    if not known:
        return unknown, "there is none; leave it out, or write `clusters` in the main file"
    return unknown, suggestion(unknown, known)


def _no_cluster(target: Fields, context: Context) -> str | None:
    known = context.clusters or ()
    if len(known) < 2 or _given(target, "cluster") or _given(target, "clusters"):
        return None
    first = [*known][:_MOST_CLUSTERS_NAMED]
    more = "" if len(known) == len(first) else f" and {len(known) - len(first)} more"
    return f"{', '.join(first)}{more}"


def _repeated_cluster(target: Fields) -> str | None:
    names = clusters_named({"clusters": target.get("clusters")})
    return next((name for name in names if names.count(name) > 1), None)


def _unknown_server(key: str, fields: Fields, context: Context) -> str | None:
    name, servers = fields.get(key), context.resources
    if servers is None or not isinstance(name, str) or not name.strip() or name in servers:
        return None
    if len(servers) > 1 or closest(name, servers) is not None:
        return suggestion(name, servers)
    return f"there is none; {DEFAULT_SERVER} is the server at the top of `prometheus`"


def _resources(context: Context) -> AbstractSet[str] | None:
    """Return the resources that have a query at each server of the target that is named rightly."""
    of_cluster = context.clusters or {}
    names = clusters_named(context.target) or of_cluster
    servers = [of_cluster.get(name) for name in names] or [None]
    if (own := child(context.target, "server")) is not None:
        servers = [str(own)]
    found = [(context.resources or {}).get(server or DEFAULT_SERVER) for server in servers]
    known = [resources for resources in found if resources is not None]
    return frozenset.intersection(*map(frozenset, known)) if known else None


def _not_with_name(key: str, advice: str) -> Rule:
    return Rule(
        key,
        lambda hold, _: _given(hold, key, "name"),
        f"does not go with `name`: {advice}",
        _not_both(key, "name"),
    )


def _unclear_hold(target: Fields, context: Context) -> bool:
    query = target.get(HOLD_QUERY)
    if isinstance(name := child(query, "name"), str):
        query = (context.queries or {}).get(name)
    promql = query if isinstance(query, str) else child(query, "query")
    return isinstance(promql, str) and is_condition(promql) is None


def _is_zero(query: object) -> bool:
    return child(query, "empty") == "zero"


def _zero_of_pods(source: Fields, context: Context) -> bool:
    """Return whether the query of a Pods metric, its own or by name, says so."""
    own, name = (child(source, "metric", key) for key in ("query", "name"))
    named = context.queries.get(name) if context.queries and isinstance(name, str) else None
    return _is_zero(named if own is None else own)


def _zero_resources(settings: Fields, _: Context) -> str:
    queries = settings.get("resourceQueries")
    named = queries.items() if isinstance(queries, Mapping) else ()
    return ", ".join(str(name) for name, query in named if _is_zero(query))


def _names(fields: Fields, key: str) -> list[str]:
    headers = fields.get(key)
    return [str(name) for name in headers] if isinstance(headers, Mapping) else []


def _sent_twice(prometheus: Fields) -> str | None:
    known = {name.lower() for name in _names(prometheus, "headers")}
    for name in _names(prometheus, "headersFiles"):
        if name.lower() in known:
            return name
        known.add(name.lower())
    return None


def _signs_in_twice(prometheus: Fields) -> tuple[str, str] | None:
    """Return the Authorization of `headersFiles`, and the way to sign in beside it."""
    way = next((key for key in SIGN_IN if _given(prometheus, key)), None)
    names = _names(prometheus, "headersFiles")
    own = next((name for name in names if name.lower() == "authorization"), None)
    return None if way is None or own is None else (own, way)


def _needs_extra(key: str, module: str) -> Rule:
    return Rule(
        key,
        lambda prometheus, _: _given(prometheus, key) and not _is_installed(module),
        "needs a library that is not installed: pip install --require-hashes -r "
        "requirements-cloud.lock in the checkout of this project",
    )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def _web_fault(top: Fields) -> str | None:
    """Say what of `web` does not go with the address, which may be that of `listen`."""
    web, listen = top.get("web"), _address(top.get("listen", str(LISTEN)))
    if not isinstance(web, Mapping):
        return None
    own = _address(web.get("listen"))
    secured = [key for key in ("tls", "auth") if web.get(key) is not None]
    if web.get("listen") is None:
        if top.get("listen", LISTEN) is None and secured:
            return f"needs a listen of its own for {secured[0]}, since `listen` is null"
        own = listen
    elif own is not None and own == listen and own.port:
        return (
            f"listen is {own}, as the document's `listen` is: leave it out to serve the pages "
            "there, or give it another port"
        )
    if secured == ["auth"] and own is not None and not own.is_loopback:
        return (
            f"auth needs tls beside it: at {own} passwords and tokens would cross the network "
            "unencrypted; or listen on a loopback address such as 127.0.0.1:9443"
        )
    return None


def _address(value: object) -> Address | None:
    try:
        return None if value is None else listen_address(value)
    except ValueError:
        return None


_ZERO_RESOURCES = Rule("resourceQueries", _zero_resources, f"{{}}: {_NO_ZERO_OF_PODS}")


def _server(key: str) -> Rule:
    unknown = functools.partial(_unknown_server, key)
    return Rule(key, unknown, "is no key of `prometheus.servers`: {}", shown=True)


_SERVER = _server("server")
_TABLE: Mapping[type[Model], Sequence[Rule]] = {
    MainFile: (
        Rule(
            "targets",
            lambda top, _: top.get("targets") is None and not top.get("include"),
            "is missing: the workloads to scale; or `include` the files that hold them",
            {"anyOf": [_has("targets"), _has("include")]},
            fixed_by=("targets", "include"),
        ),
        Rule("web", lambda top, _: _web_fault(top), "{}"),
        Rule(
            "clusters",
            lambda top, _: _given(top, "clusters", "kubernetes"),
            "does not go with `kubernetes`: write kubeconfig, context and maxWritesPerSecond at "
            "the entries of `clusters`, and delete `kubernetes`",
            _not_both("clusters", "kubernetes"),
        ),
        Rule(
            "clusters",
            lambda top, _: _repeated_name(top, "clusters"),
            "two of them are called `{}`: give each a name of its own",
        ),
        Rule(
            "shards",
            lambda top, _: (
                _given(top, "shards") and child(top, "leaderElection", "enabled") is not True
            ),
            "needs leaderElection: {{enabled: true}}: its Leases keep two shards from writing to "
            "one target while their number changes",
            _if(_has("shards"), _with("leaderElection", _where("enabled", True))),  # noqa: FBT003
            shown=True,
        ),
        _ZERO_RESOURCES,
    ),
    ClusterSettings: (
        _any_of(
            ("kubeconfig", "context", "inCluster"),
            "says not which cluster it is: write kubeconfig, context, or inCluster: true for the "
            "one that the daemon runs in",
        ),
        Rule(
            "inCluster",
            lambda one, _: (
                one.get("inCluster") is True
                and (_given(one, "kubeconfig") or _given(one, "context"))
            ),
            "does not go with kubeconfig or context: the service account of the pod says which "
            "cluster it is; keep one of them",
            _if(
                _where("inCluster", True),  # noqa: FBT003 - a value of JSON
                {"allOf": [_null("kubeconfig"), _null("context")]},
            ),
        ),
        _server("prometheus"),
    ),
    NamedServer: (_ZERO_RESOURCES,),
    PrometheusSettings: (
        _only_one_of(
            SIGN_IN,
            "{} cannot be used together: a request carries one Authorization; keep one of them",
        ),
        Rule(
            "headersFiles",
            lambda prometheus, _: _sent_twice(prometheus),
            "sets {}, which another entry of headers or headersFiles sets too (upper and lower "
            "case are the same): keep one of them",
        ),
        Rule(
            "headersFiles",
            lambda prometheus, _: _signs_in_twice(prometheus),
            "sets {} beside {}, which does so too: a request carries one Authorization; keep one "
            "of them",
            _if(
                {"anyOf": [_has(key) for key in SIGN_IN]},
                _properties(headersFiles={"propertyNames": {"not": {"pattern": _AUTHORIZATION}}}),
            ),
        ),
        *(_needs_extra(*row) for row in _EXTRAS),
    ),
    SigV4Settings: (
        _needs("accessKey", "secretKeyFile"),
        _needs("secretKeyFile", "accessKey"),
        _needs("externalId", "roleArn"),
    ),
    AzureAdSettings: (
        _any_of(
            _IDENTITIES, "needs one of managedIdentity, workloadIdentity and oauth: who signs in"
        ),
        _only_one_of(_IDENTITIES, "{} cannot be used together: keep one of them"),
    ),
    Tls: (_needs("certFile", "keyFile"), _needs("keyFile", "certFile")),
    WebTls: (
        Rule(
            "clientAuthType",
            lambda tls, _: (
                _one_of(tls, "clientAuthType", *_CERTIFICATES) and not _given(tls, "clientCAFile")
            ),
            "needs clientCAFile beside it: the authorities that vouch for clients",
            _if(_where("clientAuthType", *_CERTIFICATES), _has("clientCAFile")),
        ),
        Rule(
            "clientCAFile",
            lambda tls, _: (
                _given(tls, "clientCAFile") and tls.get("clientAuthType") in (None, "NoClientCert")
            ),
            f"has no use without clientAuthType {' or '.join(_CERTIFICATES)}",
            _if(_has("clientCAFile"), _where("clientAuthType", *_CERTIFICATES)),
        ),
    ),
    WebAuth: (
        _any_of(
            ("bearerTokenFile", "basicAuthUsersFile"),
            "needs bearerTokenFile, basicAuthUsersFile or both: how clients sign in",
        ),
    ),
    LeaderElection: (
        *_time_rules(
            *("leaseDuration", "renewDeadline", 1.0),
            leaseDuration="must be longer than renewDeadline, which is {1}" + _STOPS,
            renewDeadline="must be shorter than leaseDuration, which is {0}" + _STOPS,
        ),
        *_time_rules(
            *("renewDeadline", "retryPeriod", _JITTER),
            retryPeriod="1.2 times this must be shorter than renewDeadline, which is {0}" + _ENDS,
            renewDeadline="must be longer than 1.2 times retryPeriod, which is {1}" + _ENDS,
        ),
        Rule(
            "namespace",
            lambda election, context: (
                election.get("enabled") is True
                and not (election.get("namespace") or context.pod_namespace)
            ),
            "is missing: the namespace of the Lease, which is known by itself only in a pod",
        ),
    ),
    model.HorizontalPodAutoscalerSpec: (
        Rule(
            "maxReplicas",
            lambda spec, _: _too_few(spec),
            "must be at least minReplicas, which is {}",
            shown=True,
        ),
        Rule(
            "minReplicas",
            lambda spec, _: _integer(spec, "minReplicas") == 0 and _only_per_pod(spec),
            _ZERO,
            _if(_where("minReplicas", 0), _WITHOUT_PODS),
            shown=True,
        ),
    ),
    model.TargetModel: (
        Rule(
            "minReplicas",
            lambda target, _: _given(target, "idle") and _integer(target, "minReplicas") == 0,
            "must be at least 1 beside `idle`, which goes to idle.replicas and back by itself",
            _if(_has("idle"), _properties(minReplicas={"not": {"const": 0}})),
            shown=True,
        ),
        Rule(
            "idle",
            lambda target, _: _given(target, "idle") and _only_per_pod(target),
            "needs at least one metric of type External or Object: only these can be active",
            _if(_has("idle"), _WITHOUT_PODS),
        ),
        Rule(
            "idle",
            lambda target, _: _useless_activation(target),
            "is missing: the activation of {} says from which value on a target is not idle; write "
            "idle: {{after: 5m}} here, or leave the activation out",
            _if({"not": _has("idle")}, _properties(metrics={"items": _null("activation")})),
            fixed_by=("idle",),
        ),
        Rule(
            "schedules",
            lambda target, _: _repeated_name(target, "schedules"),
            "two of them are called `{}`: give each a name of its own",
        ),
        *(
            Rule(
                key,
                functools.partial(_unknown_cluster, key),
                "`{}` is no name of `clusters`: {}",
            )
            for key in ("cluster", "clusters")
        ),
        Rule(
            "",
            _no_cluster,
            "cluster is missing: which of `clusters` it is in: {}; or clusters, a list of several",
            fixed_by=("cluster", "clusters"),
        ),
        Rule(
            "cluster",
            lambda target, _: _given(target, "cluster", "clusters"),
            "does not go with `clusters`: keep one of them",
            _not_both("cluster", "clusters"),
        ),
        Rule(
            "clusters",
            lambda target, _: _repeated_cluster(target),
            "names `{}` twice: a workload has one target in each cluster",
            _properties(clusters={"uniqueItems": True}),
        ),
        Rule(
            HOLD_QUERY,
            _unclear_hold,
            "compares inside of something else, so that it is unclear what a 0 says: put the "
            "comparison last, as in `max by (job) (up) == 0`, or count, as in `count(up == 0)`",
        ),
        _SERVER,
    ),
    model.IdleModel: (
        Rule("replicas", _too_few_awake, "must be less than minReplicas, which is {}", shown=True),
    ),
    model.FallbackModel: (
        Rule(
            "replicas",
            lambda fallback, _: (
                fallback.get("replicas") is None and fallback.get("behavior") != "currentReplicas"
            ),
            "is missing: the count that a metric proposes which fails; only behavior "
            "currentReplicas needs none",
            {"anyOf": [_has("replicas"), _where("behavior", "currentReplicas")]},
            fixed_by=("replicas",),
        ),
    ),
    model.UndecidedModel: (
        Rule(
            "",
            lambda one, _: _left(one),
            "is left to decide: {}: {}; delete this entry once that is done, or not wanted",
        ),
    ),
    model.ScheduleModel: (
        Rule(
            "end",
            lambda schedule, _: _never_opens(schedule),
            "is the same as start, so that the window would never open",
            shown=True,
        ),
        _any_of(
            ("minReplicas", "maxReplicas"),
            "gives no bound: write minReplicas, maxReplicas or both",
        ),
        Rule(
            "minReplicas",
            _wakes_no_window,
            "must be more than idle.replicas, which is {}",
            shown=True,
        ),
        Rule("minReplicas", _window_without_pods, _ZERO, shown=True),
        Rule(
            "minReplicas",
            functools.partial(_window_upside_down, "minReplicas"),
            "must be at most {} maxReplicas, which is {}; or give the window a maxReplicas too",
            shown=True,
        ),
        Rule(
            "maxReplicas",
            functools.partial(_window_upside_down, "maxReplicas"),
            "must be at least {} minReplicas, which is {}; or give the window a lower minReplicas "
            "too",
            shown=True,
        ),
    ),
    model.MetricSpec: (
        Rule(
            "activation",
            lambda metric, _: _given(metric, "activation") and _one_of(metric, "type", *_PER_POD),
            "belongs to metrics of type External and Object: those of type {} cannot wake a target",
            _if(_where("type", *_PER_POD), _null("activation")),
        ),
        *(rule for kind, key in SOURCES.items() for rule in _source_rules(kind, key)),
    ),
    model.ScaleTargetRef: (
        Rule("kind", lambda ref, _: _kind_fault(ref), "{}", shown=True),
        Rule(
            "",
            lambda ref, _: _missing_group(ref),
            "apiVersion is missing: {}",
            _if(
                _with("kind", {"not": {"const": "ReplicationController"}}),
                _with("apiVersion", {"type": "string", "pattern": "^[^/]+/"}),
            ),
            fixed_by=("apiVersion",),
        ),
        Rule("apiVersion", lambda ref, _: _group_fault(ref), "{}", shown=True),
    ),
    model.ResourceMetricSource: (
        *_target_rules("averageUtilization", "averageValue"),
        Rule(
            "name",
            lambda one, context: _unknown(one, _resources(context)),
            "is a resource without a query: {}; add it to `resourceQueries`, or give the metric "
            "its own `query`",
            shown=True,
        ),
        Rule("query", lambda one, _: _is_zero(one.get("query")), _NO_ZERO_OF_PODS),
    ),
    model.PodsMetricSource: (
        *_target_rules("averageValue"),
        Rule("metric", _zero_of_pods, _NO_ZERO_OF_PODS),
    ),
    model.ObjectMetricSource: _target_rules("value", "averageValue", exclusive=False),
    model.ExternalMetricSource: _target_rules("value", "averageValue"),
    model.LabelSelectorRequirement: (
        Rule(
            "values",
            lambda one, _: one.get("values") in (None, []) and _one_of(one, "operator", *_LISTED),
            "{} needs at least one value",
            _if(_where("operator", *_LISTED), _with("values", {"type": "array", "minItems": 1})),
            fixed_by=("values",),
        ),
        Rule(
            "values",
            lambda one, _: any(entries(one, "values")) and _one_of(one, "operator", *_UNLISTED),
            "{} takes no values; leave them out",
            _if(_where("operator", *_UNLISTED), _properties(values={"maxItems": 0})),
            shown=True,
        ),
    ),
    model.MetricIdentifier: (
        Rule(
            "name",
            lambda metric, context: _unknown(metric, context.queries),
            "is no key of `queries`: {}; or give the metric its own `query`",
            shown=True,
        ),
    ),
    model.BoundQueryModel: (_SERVER,),
    model.HoldQueryModel: (
        _SERVER,
        _any_of(("query", "name"), "needs `query`, which is PromQL, or `name`, a key of `queries`"),
        Rule(
            "name",
            lambda hold, context: _unknown(hold, context.queries),
            "is no key of `queries`: {}; or write the PromQL as `query`",
            shown=True,
        ),
        _not_with_name("query", "keep one of them"),
        *(
            _not_with_name(key, "write it at that query")
            for key in ("server", "maxAge", "nan", "partial")
        ),
    ),
}


def rules_of(model: type[BaseModel]) -> Sequence[Rule]:
    """Return the rules of a model and of those that it is derived from, in their order."""
    return tuple(rule for of, rules in _TABLE.items() if issubclass(model, of) for rule in rules)
