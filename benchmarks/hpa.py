"""The HPA side: kube-controller-manager's HPA controller behind prometheus-adapter."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import urllib3

from benchmarks import fleet
from benchmarks.bed import Bed
from tests.worlds.controlplane import binaries
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.server import ControlPlane, Files
from tests.worlds.process import ServerFailedError, ServerProcess, free_port
from tests.worlds.prometheus_adapter.adapter import ADAPTER, PrometheusAdapter

TUNED = (
    "--concurrent-horizontal-pod-autoscaler-syncs=50",
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
)

EXTERNAL_API = "external.metrics.k8s.io"
"""What serves External metrics; the others are metrics.k8s.io and custom.metrics.k8s.io."""

_VERSION = "v1beta1"
_RULES: Json = {
    "externalRules": [
        {
            "seriesQuery": f'{{__name__="{fleet.METRIC}"}}',
            "metricsQuery": "sum by (queue) (<<.Series>>{<<.LabelMatchers>>})",
            "resources": {"namespaced": False},
        }
    ]
}


class Adapter:
    """prometheus-adapter, which serves the `apis` through the API server.

    It is ready when `ready` says so.  Unless told another address it asks the Prometheus of the
    bed.
    """

    def __init__(
        self,
        bed: Bed,
        rules: Json = _RULES,
        *,
        apis: Sequence[str] = (EXTERNAL_API,),
        ready: Callable[[Api], bool] | None = None,
        prometheus_url: str | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self._bed = bed
        self._apis = apis
        self._ready = ready or _serves
        url = prometheus_url or bed.prometheus.url
        self._adapter = PrometheusAdapter(
            bed.folder, bed.plane, url, rules, flags, report=bed.report
        )

    @property
    def pids(self) -> dict[str, int]:
        """The process, by the name under which its cost is reported."""
        return self._adapter.pids

    def __enter__(self) -> Self:
        with self._bed.plane.api() as api:
            register(api, ADAPTER, self._adapter.port, self._apis)
            self._adapter.start(lambda: self._ready(api))
        return self

    def __exit__(self, *_: object) -> None:
        self._adapter.stop()


class HpaController:
    """kube-controller-manager with the HPA controller alone; no flags are its defaults."""

    def __init__(self, plane: ControlPlane, folder: Path, flags: Sequence[str]) -> None:
        program = binaries.locate([binaries.CONTROLLER_MANAGER])
        self._port = free_port()
        files = Files(plane.data_dir)
        self._process = ServerProcess(
            [
                str(program[binaries.CONTROLLER_MANAGER]),
                f"--kubeconfig={plane.kubeconfig}",
                "--leader-elect=false",
                "--controllers=horizontal-pod-autoscaler-controller",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._port}",
                f"--tls-cert-file={files.serving_certificate}",
                f"--tls-private-key-file={files.serving_key}",
                "--authentication-skip-lookup=true",
                "--authorization-always-allow-paths=/healthz,/metrics",
                *flags,
            ],
            folder / "hpa-controller.log",
        )
        self._pool = urllib3.connection_from_url(
            f"https://127.0.0.1:{self._port}",
            ca_certs=str(plane.ca_file),
            retries=False,
            timeout=10,
        )

    @property
    def pids(self) -> dict[str, int]:
        """The process, by the name under which its cost is reported."""
        return {} if self._process.pid is None else {binaries.CONTROLLER_MANAGER: self._process.pid}

    def check(self) -> None:
        """Raise ServerFailedError if it has ended."""
        if not self._process.running:
            raise ServerFailedError("kube-controller-manager ended")

    def metrics(self) -> str:
        """Return its own metrics."""
        return self._pool.request("GET", "/metrics").data.decode()

    def __enter__(self) -> Self:
        self._process.start()
        try:
            self._process.wait_ready(self._healthy)
        except BaseException:
            self._process.stop()
            raise
        return self

    def _healthy(self) -> bool:
        try:
            return self._pool.request("GET", "/healthz").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def __exit__(self, *_: object) -> None:
        self._process.stop()
        self._pool.close()


def register(api: Api, name: str, port: int, metrics_apis: Sequence[str] = (EXTERNAL_API,)) -> None:
    """Make the API server ask the named adapter at that port of this machine for metrics."""
    service = {
        "metadata": {"name": name},
        "spec": {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"port": port, "protocol": "TCP"}],
        },
    }
    api.create(f"/api/v1/namespaces/{fleet.NAMESPACE}/services", service)
    for group in metrics_apis:
        api.create(
            "/apis/apiregistration.k8s.io/v1/apiservices",
            {
                "metadata": {"name": f"{_VERSION}.{group}"},
                "spec": {
                    "group": group,
                    "version": _VERSION,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": {
                        "namespace": fleet.NAMESPACE,
                        "name": name,
                        "port": port,
                    },
                },
            },
        )


def metrics_path(group: str, metric: str) -> str:
    """Return where one of the APIs serves a metric of the namespace."""
    return f"/apis/{group}/{_VERSION}/namespaces/{fleet.NAMESPACE}/{metric}"


def _serves(api: Api) -> bool:
    try:
        found = api.get(metrics_path(EXTERNAL_API, fleet.METRIC))
    except ApiError:
        return False
    return bool(found["items"])
