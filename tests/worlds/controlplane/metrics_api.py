"""The metrics APIs that an HPA asks, answered by a Prometheus through the API server.

They are metrics.k8s.io for cpu, custom.metrics.k8s.io for pods and external.metrics.k8s.io.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.worlds.certificates import self_signed
from tests.worlds.cluster.localserver import LocalServer
from tests.worlds.cluster.scripted import Answer, AnsweringHandler
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.prometheus.server import Sample
from tests.worlds.waiting import wait_until

Query = Callable[[str], list[Sample]]

RESOURCE, CUSTOM, EXTERNAL = (
    "metrics.k8s.io/v1beta1",
    "custom.metrics.k8s.io/v1beta2",
    "external.metrics.k8s.io/v1beta1",
)
_VERSIONS = {
    RESOURCE: "(?P<namespace>[^/]+)/pods",
    CUSTOM: r"(?P<namespace>[^/]+)/pods/\*/(?P<metric>[^/]+)",
    EXTERNAL: "(?P<namespace>[^/]+)/(?P<metric>[^/]+)",
}
"""The paths of their metrics, below `namespaces`."""
_KINDS = {
    RESOURCE: "PodMetricsList",
    CUSTOM: "MetricValueList",
    EXTERNAL: "ExternalMetricValueList",
}
_REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
_SERVICES = "/api/v1/namespaces/default/services"
_SERVICE = "metrics-stand-in"


class MetricsApi:
    """Serves the series of a Prometheus under their names, and tells the API server.

    A selector `app=web` of pods finds series with the label `app`; so does that of an external
    metric.  The cpu of a pod is the series `cpu` in cores.
    """

    def __init__(self, api: Api, query: Query, folder: Path) -> None:
        self._api = api
        self._query = query
        self._pair = self_signed(folder, "metrics-api")

    def __enter__(self) -> Self:
        self._server = _Server(self._query)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pair.certificate, self._pair.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.__enter__()
        port = self._server.server_address[1]
        spec = {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"port": port, "protocol": "TCP"}],
        }
        self._api.create(_SERVICES, {"metadata": {"name": _SERVICE}, "spec": spec})
        for version in _VERSIONS:
            self._api.create(_REGISTRATIONS, _registration(version, port))
        for version in _VERSIONS:
            wait_until(f"{version} is served", partial(self._api.healthy, f"/apis/{version}"))
        return self

    def __exit__(self, *_: object) -> None:
        # A namespace is not emptied while an API that is registered does not answer.
        for version in _VERSIONS:
            self._api.delete(f"{_REGISTRATIONS}/{_name(version)}")
        self._api.delete(f"{_SERVICES}/{_SERVICE}")
        self._server.__exit__()


def _name(group_version: str) -> str:
    group, version = group_version.split("/")
    return f"{version}.{group}"


def _registration(group_version: str, port: int) -> Json:
    group, version = group_version.split("/")
    return {
        "metadata": {"name": _name(group_version)},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": _SERVICE, "port": port},
        },
    }


class _Server(LocalServer):
    def __init__(self, query: Query) -> None:
        self.query = query
        super().__init__(_Handler)


class _Handler(AnsweringHandler):
    server: _Server

    def do_GET(self) -> None:  # noqa: N802 - http.server's naming
        found = _answer(self.path, self.server.query)
        self.answer(Answer(404) if found is None else Answer(body=found))


def _answer(address: str, query: Query) -> Json | None:
    """Answer a request; None if there is nothing at that address."""
    url = urlsplit(address)
    selector = parse_qs(url.query).get("labelSelector", [""])[0]
    path = unquote(url.path)
    if path.removeprefix("/apis/") in _VERSIONS:
        return _resources(path.removeprefix("/apis/"))
    for group_version, pattern in _VERSIONS.items():
        if found := re.fullmatch(f"/apis/{group_version}/namespaces/{pattern}", path):
            namespace, metric = found["namespace"], found.groupdict().get("metric", "cpu")
            app = selector.removeprefix("app=")
            samples = query(f'{metric}{{namespace="{namespace}", app="{app}"}}')
            return {
                "kind": _KINDS[group_version],
                "apiVersion": group_version,
                "metadata": {},
                "items": [_item(group_version, namespace, metric, *sample) for sample in samples],
            }
    return None


def _resources(group_version: str) -> Json:
    """Return what discovery needs: the resource of every pod's metrics."""
    names = {RESOURCE: ("pods", "PodMetrics"), CUSTOM: ("pods/any", "MetricValueList")}
    name, kind = names.get(group_version, ("any", "ExternalMetricValueList"))
    item = {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": [item],
    }


def _item(
    group_version: str, namespace: str, metric: str, labels: Mapping[str, str], value: float
) -> Json:
    now, milli = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), f"{round(value * 1000)}m"
    if group_version == EXTERNAL:
        return {"metricName": metric, "metricLabels": {}, "timestamp": now, "value": milli}
    pod = {"name": labels["pod"], "namespace": namespace}
    if group_version == RESOURCE:
        usage = {"name": "app", "usage": {"cpu": milli, "memory": "1Mi"}}
        return {"metadata": pod, "timestamp": now, "window": "1s", "containers": [usage]}
    described = {"kind": "Pod", "apiVersion": "/v1", **pod}
    return {
        "describedObject": described,
        "metric": {"name": metric},
        "timestamp": now,
        "value": milli,
    }
