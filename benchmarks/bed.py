"""The real servers of a benchmark: etcd, kube-apiserver and Prometheus on loopback.

Unless told otherwise no controller runs, so that what the servers do is what the autoscaler makes
them do: a Deployment that is scaled gets no ReplicaSet and no pods.
"""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import urllib3

from benchmarks import fleet
from benchmarks.bulk import Bulk
from benchmarks.series import SeriesPage
from tests.worlds.certificates import self_signed
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import target_rules

USER = "autoscaler"

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class SeriesBed:
    """A Prometheus that scrapes `page` and more `pages`, and a folder for whoever asks it."""

    def __init__(
        self,
        report: Callable[[str], None],
        scrape_interval: str = "1s",
        *,
        pages: Sequence[Exporter] = (),
    ) -> None:
        self.report = report
        self._folder = tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True)
        self.page = SeriesPage()
        self._pages = [self.page, *pages]
        self.prometheus = PrometheusServer(
            self.folder / "prometheus", scrape_interval=scrape_interval
        )
        self._open = ExitStack()

    @property
    def folder(self) -> Path:
        """A folder for files and logs, which is removed at the end."""
        return Path(self._folder.name)

    def prometheus_metrics(self) -> str:
        """Return what Prometheus publishes about itself."""
        return urllib3.request("GET", f"{self.prometheus.url}/metrics", timeout=10).data.decode()

    def start_prometheus(self) -> None:
        """Start Prometheus, with the data that it had when it was stopped."""
        self.prometheus.start([page.target for page in self._pages])

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.callback(self._folder.cleanup)
            for page in self._pages:
                opening.enter_context(page)
            # It scrapes nothing in its first five seconds, in which the rest starts.
            opening.enter_context(self.prometheus)
            self.start_prometheus()
            self._start(opening)
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _start(self, opening: ExitStack) -> None:
        """Start what else there is."""


class Bed(SeriesBed):
    """A control plane as well."""

    def __init__(
        self,
        report: Callable[[str], None],
        scrape_interval: str = "1s",
        *,
        controllers: Sequence[str] = (),
        pages: Sequence[Exporter] = (),
    ) -> None:
        super().__init__(report, scrape_interval, pages=pages)
        self.plane = ControlPlane(
            controllers=controllers,
            users={USER: ()},
            apiserver_flags=_aggregator(self.folder),
            report=report,
        )

    @property
    def kubeconfig(self) -> Path:
        """The autoscaler's kubeconfig: what config/kubernetes allows is allowed to it, no more."""
        return self.folder / "kubeconfig"

    def servers(self) -> dict[str, int]:
        """Return the process ids of the servers that every autoscaler makes work for."""
        found = dict(self.plane.pids)
        if (pid := self.prometheus.pid) is not None:
            found["prometheus"] = pid
        return found

    def _start(self, opening: ExitStack) -> None:
        opening.enter_context(self.plane)
        self.bulk = opening.enter_context(Bulk(self.plane))
        fleet.create_namespace(self.bulk)
        self._allow()

    def _allow(self) -> None:
        self.plane.write_kubeconfig(self.kubeconfig, self.plane.token_for(USER))
        with self.plane.api() as api:
            api.create(
                f"{_RBAC}/clusterroles", {"metadata": {"name": USER}, "rules": target_rules()}
            )
            api.create(
                f"{_RBAC}/clusterrolebindings",
                {
                    "metadata": {"name": USER},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": USER,
                    },
                    "subjects": [{"kind": "User", "name": USER}],
                },
            )


def _aggregator(folder: Path) -> list[str]:
    """Return the flags by which the API server proves to an adapter for whom it speaks."""
    name = "front-proxy"
    pair = self_signed(folder, name)
    return [
        # Adapters wait for this one too, though nobody here authenticates with a certificate.
        f"--client-ca-file={pair.certificate}",
        f"--requestheader-client-ca-file={pair.certificate}",
        f"--requestheader-allowed-names={name}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pair.certificate}",
        f"--proxy-client-key-file={pair.key}",
    ]
