"""What a daemon asks of the API server and of Prometheus when nothing changes."""

import re
from typing import NamedTuple

import requests

from tests.worlds.daemon import external, target
from tests.worlds.world import World

TARGETS = 20
SYNCS = 6


class Counted(NamedTuple):
    """The queries at an instant, the syncs just before and after it, and requests for scales."""

    least: int
    queries: float
    most: int
    scales: float


def scale_requests(world: World) -> float:
    """Return how many requests for a scale the API server has counted."""
    page = world.api.text("/metrics")
    lines = re.findall(
        r'^apiserver_request_total\{.*subresource="scale".*\} (\S+)$', page, re.MULTILINE
    )
    return sum(float(value) for value in lines)


def queries(prometheus: str) -> float:
    page = requests.get(f"{prometheus}/metrics", timeout=10).text
    pattern = r'^prometheus_http_requests_total\{.*handler="/api/v1/query"\} (\S+)$'
    return sum(float(value) for value in re.findall(pattern, page, re.MULTILINE))


def test_a_sync_without_changes_costs_one_query_and_no_request_for_a_scale(world: World) -> None:
    """Six syncs of twenty targets of one query: six queries, and not one scale is read."""
    names = [f"worker-{number}" for number in range(TARGETS)]
    for name in names:
        world.exporter.set(world.metric, {"queue": name}, 30)
        world.deploy(name)
    prometheus = world.prometheus
    prometheus.wait_for(world.metric, count=TARGETS)
    document = world.document(
        *(target(world.namespace, name, external("load", 30, queue=name)) for name in names),
        queries={"load": f"sum by (queue) ({world.metric})"},
    )
    with world.start(document, "--log-level", "debug") as daemon:

        def synced() -> int:
            return len(daemon.events("synced"))

        def count() -> Counted:
            least = synced()
            asked = queries(prometheus.url)
            return Counted(least, asked, synced(), scale_requests(world))

        daemon.wait("the second sync", lambda: synced() >= 2)
        before = count()
        daemon.wait("more syncs", lambda: synced() >= before.most + SYNCS)
        after = count()
        assert daemon.stop() == 0
    summaries = daemon.events("synced")
    assert {(line["targets"], line["queries"]) for line in summaries} == {(TARGETS, 1)}
    # A sync may be under way at either end.
    asked = after.queries - before.queries
    assert after.least - before.most - 1 <= asked <= after.most - before.least + 1
    assert after.scales == before.scales


def test_each_renewal_of_the_lease_is_counted(world: World) -> None:
    """One POST makes the Lease, five ask for the rights to use it, and each PUT renews it."""
    election = {"enabled": True, "namespace": world.namespace, "retryPeriod": "200ms"}
    away = {"url": "http://127.0.0.1:9"}
    with world.running(world.document(prometheus=away, leaderElection=election)) as daemon:

        def counted(verb: str, code: str) -> float:
            name = "autoscaler_kubernetes_request_duration_seconds_count"
            return daemon.metric(name, verb=verb, code=code)

        daemon.wait("it leads", lambda: daemon.metric("autoscaler_leader") == 1)
        daemon.wait("it has renewed", lambda: counted("PUT", "200") >= 2)
        daemon.wait("the rights", lambda: counted("POST", "201") >= 6)
        assert counted("POST", "201") == 6
