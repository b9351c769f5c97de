"""Where the binaries of the control plane come from.

`KUBEBUILDER_ASSETS`, where it is set, names a folder that holds etcd and kube-apiserver. Everything
else is built with Go from the module beside this file, see `gomodule`.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.worlds.gomodule import ControlPlaneUnavailable, GoModule

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"

PACKAGES = {
    ETCD: "go.etcd.io/etcd/server/v3",
    APISERVER: "k8s.io/kubernetes/cmd/kube-apiserver",
    CONTROLLER_MANAGER: "k8s.io/kubernetes/cmd/kube-controller-manager",
}

_MODULE = GoModule(
    folder=Path(__file__).parent,
    title="Kubernetes",
    pinned="k8s.io/kubernetes",
    packages=PACKAGES,
    stamped=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
)


def locate(
    names: Sequence[str] = tuple(PACKAGES), report: Callable[[str], None] | None = None
) -> dict[str, Path]:
    """Return the path of each named binary, building those that are not there yet.

    A build takes minutes; `report` receives one sentence before it starts.
    """
    found = _assets(names)
    missing = [name for name in names if name not in found]
    return found | _MODULE.built(missing, report) if missing else found


def kubernetes_version() -> str:
    """Return the Kubernetes version that go.mod pins, for example v1.37.2."""
    return _MODULE.version()


def _assets(names: Sequence[str]) -> dict[str, Path]:
    """Return the named binaries that the folder `KUBEBUILDER_ASSETS` holds.

    Those assets never include kube-controller-manager, so its absence is no fault of the folder.
    """
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        return {}
    found = {name: Path(folder) / name for name in names if (Path(folder) / name).is_file()}
    absent = [name for name in (ETCD, APISERVER) if name in names and name not in found]
    if absent:
        raise ControlPlaneUnavailable(f"KUBEBUILDER_ASSETS={folder} holds no {', '.join(absent)}")
    return found
