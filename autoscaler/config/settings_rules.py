"""The rules between fields of the settings: servers, clusters, the listener, the election."""

import importlib.util
from collections.abc import Collection, Mapping, Sequence

from pydantic import JsonValue

from autoscaler.config import durations
from autoscaler.config import rule_forms as form
from autoscaler.config.documents import entries
from autoscaler.config.error_messages import suggestion
from autoscaler.config.fields import Address, listen_address
from autoscaler.config.models import Model, fields_by_key
from autoscaler.config.prometheus_connection import (
    AzureAdSettings,
    PrometheusSettings,
    SigV4Settings,
    Tls,
)
from autoscaler.config.rule_forms import Context, Fields, Rule
from autoscaler.config.settings import (
    LISTEN,
    ClusterSettings,
    LeaderElection,
    MainFile,
    NamedServer,
    NamespaceSelection,
    ObjectsSettings,
    WebAuth,
    WebTls,
)

SIGN_IN = ("bearerTokenFile", "basicAuth", "oauth2", "sigv4", "googleIam", "azuread")
"""The ways to sign in to a Prometheus; a connection has at most one."""
_AUTHORIZATION = "^[Aa][Uu][Tt][Hh][Oo][Rr][Ii][Zz][Aa][Tt][Ii][Oo][Nn]$"
_NO_AUTHORIZATION: JsonValue = {"propertyNames": {"not": {"pattern": _AUTHORIZATION}}}
_IDENTITIES = ("managedIdentity", "workloadIdentity", "oauth")
_NO_CERTIFICATE = form.properties(clientAuthType={"enum": [None, "NoClientCert"]})
_CERTIFICATES = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_JITTER = 1.2
"""The largest random factor of `retryPeriod` (client-go's JitterFactor)."""


def _longer(key: str, shorter: str, factor: float, why: str) -> Rule:
    """Return the rule that one duration is longer than ``factor`` times another."""

    def late(election: Fields, _: Context) -> tuple[str, str] | None:
        long, short = _seconds(election, key), _seconds(election, shorter)
        if long is None or short is None or long > factor * short:
            return None
        return durations.format_seconds(long), durations.format_seconds(short)

    times = "" if factor == 1 else f"{factor:g} times "
    return Rule("", late, f"{key} is {{}}, and must be longer than {times}{shorter}, {{}}: {why}")


def _seconds(election: Fields, key: str) -> float | None:
    """Return a duration in seconds; None for a wrong form, which is reported as such."""
    value, usual = election.get(key), fields_by_key(LeaderElection)[key].default
    try:
        return float(usual) if value is None else durations.seconds_of(value)
    except ValueError:
        return None


def _zero_resources(settings: Fields, _: Context) -> str:
    queries = settings.get("resourceQueries")
    named = queries.items() if isinstance(queries, Mapping) else ()
    return ", ".join(str(name) for name, query in named if form.is_zero(query))


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
    """Return the Authorization of `headersFiles`, and the other way to sign in."""
    way = next((key for key in SIGN_IN if form.given(prometheus, key)), None)
    names = _names(prometheus, "headersFiles")
    own = next((name for name in names if name.lower() == "authorization"), None)
    return None if way is None or own is None else (own, way)


def _needs_extra(key: str, module: str, extra: str) -> Rule:
    return Rule(
        key,
        lambda prometheus, _: form.given(prometheus, key) and not _is_installed(module),
        f"needs a library that is not installed: pip install 'promql-autoscaler[{extra}]'",
    )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def _web_fault(top: Fields) -> str | None:
    """Return the keys of `web` that do not fit the address, which may come from `listen`."""
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
            f"auth needs tls: at {own} passwords and tokens would cross the network "
            "unencrypted; or listen on a loopback address such as 127.0.0.1:9443"
        )
    return None


def _address(value: object) -> Address | None:
    try:
        return None if value is None else listen_address(value)
    except ValueError:
        return None


_ZERO_RESOURCES = Rule("resourceQueries", _zero_resources, f"{{}}: {form.NO_ZERO_OF_PODS}")


_WITH_OBJECTS = form.with_key("objects", form.where("enabled", True))  # noqa: FBT003 - JSON


def _unknown_entry(
    key: str, fields: Fields, known: Collection[str] | None
) -> tuple[str, str] | None:
    """Return the first unknown name in a list, and the known ones."""
    names = (name for _, name in entries(fields, key) if isinstance(name, str))
    unknown = None if known is None else next((n for n in names if n not in known), None)
    return None if unknown is None or known is None else (unknown, suggestion(unknown, known))


SETTINGS_RULES: Mapping[type[Model], Sequence[Rule]] = {
    MainFile: (
        form.stated(
            "targets",
            {"anyOf": [form.has("targets"), form.has("include"), _WITH_OBJECTS]},
            "is missing: the workloads to scale; or `include` the files that hold them",
            fixed_by=("targets", "include"),
        ),
        Rule("web", lambda top, _: _web_fault(top), "{}"),
        form.stated(
            "clusters",
            form.not_both("clusters", "kubernetes"),
            "does not go with `kubernetes`: write kubeconfig, context and maxWritesPerSecond at "
            "the entries of `clusters`, and delete `kubernetes`",
        ),
        Rule(
            "clusters",
            lambda top, _: form.repeated_name(top, "clusters"),
            "two of them are called `{}`: give each a name of its own",
        ),
        form.stated(
            "shards",
            form.implies(
                form.has("shards"),
                form.with_key("leaderElection", form.where("enabled", True)),  # noqa: FBT003
            ),
            "needs leaderElection: {{enabled: true}}: its Leases keep two shards from writing to "
            "one target while their number changes",
            shown=True,
        ),
        _ZERO_RESOURCES,
    ),
    ClusterSettings: (
        form.any_of(
            ("kubeconfig", "context", "inCluster"),
            "says not which cluster it is: write kubeconfig, context, or inCluster: true for the "
            "one that the daemon runs in",
        ),
        form.stated(
            "inCluster",
            form.implies(
                form.where("inCluster", True),  # noqa: FBT003 - a value of JSON
                {"allOf": [form.null("kubeconfig"), form.null("context")]},
            ),
            "does not go with kubeconfig or context: the service account of the pod says which "
            "cluster it is; keep one of them",
        ),
        form.server_rule("prometheus"),
    ),
    NamedServer: (_ZERO_RESOURCES,),
    PrometheusSettings: (
        form.only_one_of(
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
            "sets {} next to {}, which does so too, but a request has one Authorization "
            "header; keep one "
            "of them",
            form.implies(
                {"anyOf": [form.has(key) for key in SIGN_IN]},
                form.properties(headersFiles=_NO_AUTHORIZATION),
            ),
        ),
        _needs_extra("sigv4", "botocore", "aws"),
        _needs_extra("googleIam", "google.auth", "google"),
        _needs_extra("azuread", "azure.identity", "azure"),
    ),
    SigV4Settings: (
        form.needs("accessKey", "secretKeyFile"),
        form.needs("secretKeyFile", "accessKey"),
        form.needs("externalId", "roleArn"),
    ),
    AzureAdSettings: (
        form.any_of(
            _IDENTITIES, "needs one of managedIdentity, workloadIdentity and oauth: who signs in"
        ),
        form.only_one_of(_IDENTITIES, "{} cannot be used together: keep one of them"),
    ),
    Tls: (form.needs("certFile", "keyFile"), form.needs("keyFile", "certFile")),
    WebTls: (
        form.stated(
            "clientAuthType",
            form.implies(form.where("clientAuthType", *_CERTIFICATES), form.has("clientCAFile")),
            "needs clientCAFile, the CA of client certificates",
        ),
        form.stated(
            "clientCAFile",
            form.implies(form.has("clientCAFile"), {"not": _NO_CERTIFICATE}),
            f"has no use without clientAuthType {' or '.join(_CERTIFICATES)}",
        ),
    ),
    WebAuth: (
        form.any_of(
            ("bearerTokenFile", "basicAuthUsersFile"),
            "needs bearerTokenFile, basicAuthUsersFile or both: how clients sign in",
        ),
    ),
    ObjectsSettings: (
        Rule(
            "servers",
            lambda objects, context: _unknown_entry("servers", objects, context.resources),
            "`{}` is not in `prometheus.servers`: {}",
        ),
        Rule(
            "queries",
            lambda objects, context: _unknown_entry("queries", objects, context.queries),
            "`{}` is not in `queries`: {}",
        ),
    ),
    NamespaceSelection: (
        form.stated(
            "",
            form.not_both("names", "selector"),
            "has both `names` and `selector`: keep one of them",
        ),
    ),
    LeaderElection: (
        _longer("leaseDuration", "renewDeadline", 1, "a leader stops before another may start"),
        _longer("renewDeadline", "retryPeriod", _JITTER, "else one late try ends the leadership"),
        Rule(
            "namespace",
            lambda election, context: (
                election.get("enabled") is True
                and not (election.get("namespace") or context.pod_namespace)
            ),
            "is missing: the namespace of the Lease, which is known by itself only in a pod",
        ),
    ),
}
