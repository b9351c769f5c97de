"""The metrics APIs that an HPA asks, answered by a Prometheus through the API server.

They are metrics.k8s.io for cpu, custom.metrics.k8s.io for pods and external.metrics.k8s.io.
"""

import json
import re
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.worlds.certificates import self_signed
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.prometheus.server import Sample
from tests.worlds.waiting import wait_until

Query = Callable[[str], list[Sample]]

RESOURCE, CUSTOM, EXTERNAL = (
    "metrics.k8s.io/v1beta1",
    "custom.metrics.k8s.io/v1beta2",
    "external.metrics.k8s.io/v1beta1",
)
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
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._query))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pair.certificate, self._pair.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        port = self._server.server_address[1]
        spec = {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"port": port, "protocol": "TCP"}],
        }
        self._api.create(_SERVICES, {"metadata": {"name": _SERVICE}, "spec": spec})
        for version in (RESOURCE, CUSTOM, EXTERNAL):
            self._api.create(_REGISTRATIONS, _registration(version, port))
        for version in (RESOURCE, CUSTOM, EXTERNAL):
            wait_until(f"{version} is served", partial(self._api.healthy, f"/apis/{version}"))
        return self

    def __exit__(self, *_: object) -> None:
        # A namespace is not emptied while an API that is registered does not answer.
        for version in (RESOURCE, CUSTOM, EXTERNAL):
            self._api.delete(f"{_REGISTRATIONS}/{_name(version)}")
        self._api.delete(f"{_SERVICES}/{_SERVICE}")
        self._server.shutdown()
        self._server.server_close()


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


def _handler(query: Query) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = _answer(self.path, query)
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited
            """Print nothing."""

    return Handler


def _answer(address: str, query: Query) -> Json | None:
    """Answer a request; None if there is nothing at that address."""
    url = urlsplit(address)
    selector = parse_qs(url.query).get("labelSelector", [""])[0]
    app = selector.removeprefix("app=")
    path = unquote(url.path)
    if path.removeprefix("/apis/") in {RESOURCE, CUSTOM, EXTERNAL}:
        return _resources(path.removeprefix("/apis/"))
    if found := re.fullmatch(f"/apis/{RESOURCE}/namespaces/([^/]+)/pods", path):
        return _cpu(query(_series("cpu", found[1], app)), found[1])
    if found := re.fullmatch(rf"/apis/{CUSTOM}/namespaces/([^/]+)/pods/\*/([^/]+)", path):
        return _of_pods(query(_series(found[2], found[1], app)), found[1], found[2])
    if found := re.fullmatch(f"/apis/{EXTERNAL}/namespaces/([^/]+)/([^/]+)", path):
        return _external(query(_series(found[2], found[1], app)), found[2])
    return None


def _series(name: str, namespace: str, app: str) -> str:
    return f'{name}{{namespace="{namespace}", app="{app}"}}'


def _resources(group_version: str) -> Json:
    """Return what discovery needs: the resource of every pod's metrics."""
    names = {RESOURCE: ("pods", "PodMetrics"), CUSTOM: ("pods/any", "MetricValueList")}
    name, kind = names.get(group_version, ("any", "ExternalMetricValueList"))
    one = {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": [one],
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _milli(value: float) -> str:
    return f"{round(value * 1000)}m"


def _cpu(samples: list[Sample], namespace: str) -> Json:
    items = [
        {
            "metadata": {"name": labels["pod"], "namespace": namespace},
            "timestamp": _now(),
            "window": "1s",
            "containers": [{"name": "app", "usage": {"cpu": _milli(value), "memory": "1Mi"}}],
        }
        for labels, value in samples
    ]
    return {"kind": "PodMetricsList", "apiVersion": RESOURCE, "metadata": {}, "items": items}


def _of_pods(samples: list[Sample], namespace: str, metric: str) -> Json:
    items = [
        {
            "describedObject": {
                "kind": "Pod",
                "namespace": namespace,
                "name": labels["pod"],
                "apiVersion": "/v1",
            },
            "metric": {"name": metric},
            "timestamp": _now(),
            "value": _milli(value),
        }
        for labels, value in samples
    ]
    return {"kind": "MetricValueList", "apiVersion": CUSTOM, "metadata": {}, "items": items}


def _external(samples: list[Sample], metric: str) -> Json:
    items = [
        {"metricName": metric, "metricLabels": {}, "timestamp": _now(), "value": _milli(value)}
        for _, value in samples
    ]
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": EXTERNAL,
        "metadata": {},
        "items": items,
    }
