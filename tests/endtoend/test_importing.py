"""From the HorizontalPodAutoscalers of a cluster to a daemon in shadow beside them."""

import textwrap
from pathlib import Path

import pytest

from autoscaler.migrate.options import ImportOptions
from tests.importers.importing import run
from tests.worlds.cluster import others
from tests.worlds.controlplane.api import Json
from tests.worlds.daemon import command
from tests.worlds.waiting import wait_until
from tests.worlds.world import DEMAND, World

COUNT = 20
RULES = textwrap.dedent("""\
    externalRules:
    - seriesQuery: '%s{namespace!=""}'
      resources: {overrides: {namespace: {resource: namespace}}}
      name: {as: "demand"}
      metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
    """)
METRIC = {"name": "demand", "selector": {"matchLabels": {"team": "web"}}}
METRICS: list[Json] = [
    {"type": "External", "external": {"metric": METRIC, "target": target}}
    for target in ({"type": "AverageValue", "averageValue": "1"},)
]


def test_the_autoscalers_of_a_cluster_become_targets_beside_them(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty HPAs and the adapter's ConfigMap become one configuration that decides beside them.

    One is adopted and given back; without the HPAs all are scaled.  It takes 15 s.
    """
    for labels in ({"team": "web"}, {"team": "other"}):
        world.exporter.set(world.metric, {"namespace": world.namespace, **labels}, DEMAND)
    world.prometheus.wait_for(f'{world.metric}{{team="other"}} == {DEMAND}')
    names = [f"w{number}" for number in range(COUNT)]

    def autoscalers() -> set[str]:
        items = world.api.get(others.path_of(world.namespace))["items"]
        return {document["metadata"]["name"] for document in items}

    for name in names:
        world.deploy(name, paused=True)
        autoscaler = others.autoscaler(f"{name}-hpa", of=name)
        autoscaler["spec"] |= {"maxReplicas": 10, "metrics": METRICS}
        others.create(world.api, world.namespace, autoscaler)
    metadata = {"name": "adapter", "labels": {"app.kubernetes.io/name": "prometheus-adapter"}}
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    held = {"config.yaml": RULES % world.metric}
    world.api.create(path, {"metadata": metadata, "data": held})
    monkeypatch.setenv("KUBECONFIG", str(world.plane.kubeconfig))
    options = ImportOptions(
        from_cluster=True, namespace=world.namespace, prometheus=world.prometheus.url
    )
    ran = run([], tmp_path / "autoscaler.yaml", options)
    assert (ran.code, ran.report["summary"]["imported"]) == (0, COUNT), ran.report
    assert list(ran.document["queries"]) == ["demand"]
    assert {target.key for target in ran.config.targets} == {world.key(name) for name in names}
    daemon_keys = {"syncPeriod": "1s", "listen": "127.0.0.1:0"}
    with world.running(ran.document | daemon_keys) as daemon:
        for name in names:
            line = daemon.first_sync(world.key(name))
            assert (line["controlled_by"], line["desired_replicas"]) == (
                f'HorizontalPodAutoscaler "{name}-hpa"',
                DEMAND,
            ), line
        assert set(world.all_replicas().values()) == {1}
        url, admin = f"http://{daemon.address}", {"KUBECONFIG": str(world.plane.kubeconfig)}
        adopt = ("adopt", "-c", daemon.file, "--url", url, world.key("w0"), "--execute")
        # No metrics API is served here, so that the HPA wants nothing.
        command(*adopt, "--force", environment=admin)
        wait_until("it is scaled", lambda: world.replicas("w0") == DEMAND)
        assert autoscalers() == {f"{name}-hpa" for name in names[1:]}
        command(*adopt, "--back", environment=admin)
        assert autoscalers() == {f"{name}-hpa" for name in names}
    world.set_by_hand("w0", 1)
    for name in names:
        world.api.delete(f"{others.path_of(world.namespace)}/{name}-hpa")
    live = run([], tmp_path / "none.yaml", options)
    assert (live.code, live.text) == (3, "")
    targets = [{**target, "mode": "live"} for target in ran.document["targets"]]
    with world.running(ran.document | daemon_keys | {"targets": targets}):
        wait_until(
            "all are scaled", lambda: set(world.all_replicas().values()) == {DEMAND}, timeout=30
        )
