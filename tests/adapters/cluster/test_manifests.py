"""Where the rules of prometheus-adapter are looked for in a cluster."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.failures import Failure
from autoscaler.migrate.manifests import ClusterManifests

DENIED = Failure("configmaps is forbidden", status=403)
ABSENT = Failure("not found", status=404)


class FakeApi:
    """An API server with ConfigMaps, some of whose namespaces may be read."""

    server = "https://cluster"

    def __init__(self, config_map: Mapping[str, Any], readable: frozenset[str]) -> None:
        self._config_map = config_map
        self._readable = readable

    def get(self, path: str, _deadline: float, query: Mapping[str, str] | None = None) -> Any:
        if not path.endswith("/configmaps"):
            return ABSENT
        namespace = path.split("/")[-2] if "/namespaces/" in path else ""
        if namespace not in self._readable:
            return DENIED
        metadata = self._config_map["metadata"]
        matches = namespace in {"", metadata["namespace"]} and any(
            (key == "fieldSelector" and text == f"metadata.name={metadata['name']}")
            or (key == "labelSelector" and selects(text, metadata["labels"]))
            for key, text in (query or {}).items()
        )
        return {"metadata": {}, "items": [self._config_map] if matches else []}


def selects(selector: str, labels: Mapping[str, str]) -> bool:
    """Return whether a selector such as ``a in (b,c)`` selects labels."""
    key, _, values = selector.partition(" in ")
    return labels.get(key, "none") in values.strip("()").split(",")


CHART = "app.kubernetes.io/name"
ANYWHERE, USUAL = frozenset({""}), frozenset({"shop", "monitoring"})


@pytest.mark.parametrize("readable", [ANYWHERE, USUAL])
@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("release-prometheus-adapter", {CHART: "prometheus-adapter"}),
        ("x", {CHART: "k8s-prometheus-adapter"}),
        ("x", {"app": "prometheus-adapter"}),
        ("x", {"app": "custom-metrics-apiserver"}),
        ("adapter-config", {}),
        ("prometheus-adapter", {}),
        ("prometheus-adapter", {CHART: "prometheus-adapter", "app": "prometheus-adapter"}),
    ],
)
def test_the_rules_are_found_in_another_namespace(
    readable: frozenset[str], name: str, labels: dict[str, str]
) -> None:
    metadata = {"name": name, "namespace": "monitoring", "labels": labels}
    api = FakeApi({"metadata": metadata, "data": {}}, readable)
    cluster = ClusterManifests(cast("Api", api), "shop")
    (found,) = cluster.adapter_rules()
    assert (found["kind"], found["metadata"]["name"]) == ("ConfigMap", name)
    assert cluster.failures == []
    where = "all namespaces" if readable is ANYWHERE else "shop, monitoring"
    assert f" in {where}: " in cluster.searched


def test_without_readable_namespaces_no_rules_are_found() -> None:
    other = {"metadata": {"name": "x", "namespace": "x", "labels": {}}}
    cluster = ClusterManifests(cast("Api", FakeApi(other, frozenset())), "shop")
    assert list(cluster.adapter_rules()) == []
    assert cluster.failures == []
    assert "no namespace" in cluster.searched


def test_an_hpa_that_keda_created_is_left_out() -> None:
    class Hpas:
        server = "server"

        def get(self, path: str, _deadline: float, _query: Mapping[str, str] | None = None) -> Any:
            if not path.endswith("/horizontalpodautoscalers"):
                return ABSENT
            owned = {"name": "keda-hpa-a", "ownerReferences": [{"kind": "ScaledObject"}]}
            return {"metadata": {}, "items": [{"metadata": owned}, {"metadata": {"name": "b"}}]}

    found = ClusterManifests(cast("Api", Hpas())).autoscalers()
    assert [manifest["metadata"]["name"] for manifest in found] == ["b"]
