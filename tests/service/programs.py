"""Programs of platform engineers, and our check of types, built with Go from published modules."""

from collections.abc import Callable
from pathlib import Path

from tests.worlds.gomodule import GoModule

_KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5"
_MODULE = GoModule(
    folder=Path(__file__).parent,
    title="the tests of manifests",
    pinned=_KUSTOMIZE,
    packages={
        "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
        "flux": "autoscaler.test/service/flux",
        "helm": "helm.sh/helm/v4/cmd/helm",
        "kubectl": "autoscaler.test/service/kubectl",
        "kustomize": _KUSTOMIZE,
        "operator": "autoscaler.test/service/operator",
    },
)


def build_all(report: Callable[[str], None]) -> None:
    """Build the programs that are not in the cache.  Raises ControlPlaneUnavailable."""
    _MODULE.built(list(_MODULE.packages), report)


def locate(name: str) -> Path:
    """Return a program, built if the cache lacks it.  Raises ControlPlaneUnavailable."""
    return _MODULE.built([name])[name]
