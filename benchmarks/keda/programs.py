"""KEDA's operator and metrics adapter, built from their published module."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

import urllib3
import yaml

from benchmarks import hpa
from benchmarks.bed import Bed
from tests.worlds.certificates import self_signed
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.gomodule import GoModule
from tests.worlds.process import ServerFailedError, ServerProcess, free_port
from tests.worlds.waiting import wait_until

OPERATOR, ADAPTER = "keda-operator", "keda-metrics-adapter"
NAMESPACE = "keda"

KEDA = GoModule(
    folder=Path(__file__).parent,
    title="KEDA",
    pinned="github.com/kedacore/keda/v2",
    packages={
        OPERATOR: "github.com/kedacore/keda/v2/cmd/operator",
        ADAPTER: "github.com/kedacore/keda/v2/cmd/adapter",
    },
)

FOR_FLEETS = ("--kube-api-qps=200", "--kube-api-burst=300")
"""With the default of 20 requests a second, 300 ScaledObjects get their HPAs in 7 minutes."""

_ENVIRONMENT = {
    "WATCH_NAMESPACE": "",
    "POD_NAMESPACE": NAMESPACE,
    "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Keda:
    """The operator and the metrics adapter on a control plane, which gets KEDA's CRDs."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._programs = KEDA.built([OPERATOR, ADAPTER], bed.report)
        self._certificates = _certificates(bed.folder)
        self._metrics_port, self._adapter_port, self._health_port = (free_port() for _ in range(3))
        self._operator = self._server(OPERATOR, self._operator_flags())
        self._adapter = self._server(ADAPTER, self._adapter_flags())

    @property
    def pids(self) -> dict[str, int]:
        """The processes, by the names under which their cost is reported."""
        found = {OPERATOR: self._operator.pid, ADAPTER: self._adapter.pid}
        return {name: pid for name, pid in found.items() if pid is not None}

    def check(self) -> None:
        """Raise ServerFailedError if one of them has ended."""
        if missing := {OPERATOR, ADAPTER} - set(self.pids):
            raise ServerFailedError(f"ended: {', '.join(sorted(missing))}")

    def __enter__(self) -> Self:
        with ExitStack() as opening, self._bed.plane.api() as api:
            opening.callback(self._stop)
            _install(api)
            self._operator.start()
            self._operator.wait_ready(self._healthy)
            self._adapter.start()
            hpa.register(api, ADAPTER, self._adapter_port)
            self._adapter.wait_ready(lambda: _serves(api), timeout=90)
            opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        self._adapter.stop()
        self._operator.stop()

    def _server(self, name: str, flags: Sequence[str]) -> ServerProcess:
        return ServerProcess(
            [str(self._programs[name]), *flags],
            self._bed.folder / f"{name}.log",
            environment=_ENVIRONMENT,
        )

    def _operator_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self._bed.plane.kubeconfig}",
            "--leader-elect=false",
            "--enable-cert-rotation=false",
            f"--cert-dir={self._certificates}",
            "--metrics-bind-address=127.0.0.1:0",
            f"--health-probe-bind-address=127.0.0.1:{self._health_port}",
            f"--metrics-service-bind-address=127.0.0.1:{self._metrics_port}",
            *FOR_FLEETS,
        ]

    def _adapter_flags(self) -> list[str]:
        kubeconfig = self._bed.plane.kubeconfig
        return [
            f"--kubeconfig={kubeconfig}",
            f"--lister-kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._adapter_port}",
            f"--port={free_port()}",
            f"--metrics-service-address=localhost:{self._metrics_port}",
            f"--client-ca-file={self._certificates / 'ca.crt'}",
            f"--tls-cert-file={self._certificates / 'tls.crt'}",
            f"--tls-private-key-file={self._certificates / 'tls.key'}",
            f"--cert-dir={self._certificates}",
            *FOR_FLEETS,
        ]

    def _healthy(self) -> bool:
        url = f"http://127.0.0.1:{self._health_port}/readyz"
        try:
            return urllib3.request("GET", url, timeout=2, retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False


def _certificates(folder: Path) -> Path:
    """Make the certificate by which the two know each other, under the names that KEDA expects."""
    target = folder / "keda-certificates"
    target.mkdir()
    pair = self_signed(target, "localhost")
    shutil.copy(pair.certificate, target / "ca.crt")
    pair.certificate.rename(target / "tls.crt")
    pair.key.rename(target / "tls.key")
    return target


def _install(api: Api) -> None:
    """Create KEDA's namespace and CRDs, and wait until they are served."""
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    names = []
    for file in sorted((KEDA.source() / "config" / "crd" / "bases").glob("*.yaml")):
        definition: Json = yaml.safe_load(file.read_text())
        names.append(api.create(_CRDS, definition)["metadata"]["name"])

    def established(name: str) -> bool:
        conditions = api.get(f"{_CRDS}/{name}").get("status", {}).get("conditions") or ()
        return any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in conditions
        )

    for name in names:
        wait_until(f"{name} is served", partial(established, name))


def _serves(api: Api) -> bool:
    try:
        api.get("/apis/external.metrics.k8s.io/v1beta1")
    except ApiError:
        return False
    return True
