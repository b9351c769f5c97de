"""prometheus-adapter, which serves custom and external metrics from a Prometheus by rules."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import yaml

from tests.worlds.certificates import of_loopback
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.gomodule import GoModule
from tests.worlds.process import ServerProcess, free_port

ADAPTER = "prometheus-adapter"
ADAPTER_MODULE = GoModule(
    folder=Path(__file__).parent,
    title="the HPA",
    pinned="sigs.k8s.io/prometheus-adapter",
    packages={ADAPTER: "sigs.k8s.io/prometheus-adapter/cmd/adapter"},
)

ALONE = ("--authentication-skip-lookup",)
"""Flags with which it serves every token of the API server, and needs no aggregator."""


class PrometheusAdapter:
    """The adapter as a process, from `start` to `stop`.

    Construction raises ControlPlaneUnavailable where it is not built and cannot be.
    """

    def __init__(
        self,
        folder: Path,
        plane: ControlPlane,
        prometheus_url: str,
        rules: Mapping[str, object],
        flags: Sequence[str] = (),
        report: Callable[[str], None] | None = None,
    ) -> None:
        program = ADAPTER_MODULE.built([ADAPTER], report)[ADAPTER]
        self.port = free_port()
        pair = of_loopback(folder, ADAPTER)
        self.ca_file = pair.certificate
        """The certificate with which clients verify it."""
        config = folder / "adapter.yaml"
        config.write_text(yaml.safe_dump(dict(rules)))
        self.process = ServerProcess(
            [
                str(program),
                f"--config={config}",
                f"--prometheus-url={prometheus_url}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--tls-cert-file={pair.certificate}",
                f"--tls-private-key-file={pair.key}",
                f"--lister-kubeconfig={plane.kubeconfig}",
                f"--authentication-kubeconfig={plane.kubeconfig}",
                f"--authorization-kubeconfig={plane.kubeconfig}",
                *flags,
            ],
            folder / "adapter.log",
        )

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def pids(self) -> dict[str, int]:
        """The process, by the name under which its cost is reported."""
        return {} if self.process.pid is None else {ADAPTER: self.process.pid}

    def start(self, serves: Callable[[], bool]) -> Self:
        """Start, and wait until it ``serves``."""
        self.process.start()
        try:
            self.process.wait_ready(serves, timeout=90)
        except BaseException:
            self.process.stop()
            raise
        return self

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
