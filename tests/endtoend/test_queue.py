"""The product's proof: a queue fills and drains, and a Deployment follows, on real parts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from autoscaler.core.reconcile import ALL_BELOW
from tests.worlds.daemon import Document, external, target
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.rabbitmq import RabbitMQ
from tests.worlds.waiting import let_pass, wait_until
from tests.worlds.world import World

EXAMPLE = (Path(__file__).parents[2] / "config" / "queue.yaml").read_text(encoding="utf-8")
DEPTH = "rabbitmq_queue_messages_ready"


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """Give a broker with empty queues."""
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq")) as broker:
        for queue in ("orders", "returns", "mails"):
            broker.declare(queue)
        yield broker


@pytest.fixture(scope="module")
def scraping(
    rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    """Give a Prometheus that scrapes the broker as the example says."""
    with PrometheusServer(tmp_path_factory.mktemp("scraping")) as prometheus:
        yield prometheus.start([scrape_config(rabbitmq.address)])


def scrape_config(address: str) -> dict[str, object]:
    """Return what the example says about scraping RabbitMQ, for a broker at an address."""
    example = re.search(r"^#   (scrape_configs:\n.*?)^#\n", EXAMPLE, re.DOTALL | re.MULTILINE)
    assert example
    (found,) = yaml.safe_load(example[1].replace("#   ", ""))["scrape_configs"]
    found["static_configs"][0]["targets"] = [address]
    return dict(found)


def config(world: World, prometheus: PrometheusServer, of: Document, period: str) -> Document:
    """Return the example config/queue.yaml with a quicker sync and another target.

    A sync has 0.9 of its period for all that it asks, which a busy machine may need.
    """
    queries = yaml.safe_load(EXAMPLE)["queries"]
    server = {"url": prometheus.url}
    return world.document(of, prometheus=server, syncPeriod=period, queries=queries)


@pytest.mark.usefixtures("kubelet")
def test_a_deployment_follows_its_queue_up_and_down(
    rabbitmq: RabbitMQ, scraping: PrometheusServer, world: World
) -> None:
    """200 messages at 30 a replica are ceil(200 / 30) = 7 workers; none are the minimum, 1.

    On the way up the default policies allow 4 more than the one of 15 seconds ago, hence 5 and
    then 7; on the way down the empty queue has to last for the window of 5 seconds.
    """
    key, orders = world.deploy("order-worker"), external(DEPTH, "30", queue="orders")
    window = {"scaleDown": {"stabilizationWindowSeconds": 5}}
    worker = target(
        world.namespace, "order-worker", orders, minReplicas=1, maxReplicas=20, behavior=window
    )
    rabbitmq.publish("returns", 50)
    rabbitmq.publish("orders", 200)
    # A scrape while the queue fills would see a part of it.
    scraping.wait_for(f'{DEPTH}{{queue="orders"}} == 200')
    with world.start(config(world, scraping, worker, "3s")) as daemon:
        world.wait_pods("order-worker", 7)
        assert rabbitmq.consume("orders", 500) == 200
        wait_until("1 replica", lambda: world.replicas("order-worker") == 1)
        assert daemon.stop() == 0

    lines = daemon.syncs(key)
    ups = [line for line in lines if line["desired_replicas"] > line["current_replicas"]]
    downs = [line for line in lines if line["desired_replicas"] < line["current_replicas"]]
    assert lines[-1]["desired_replicas"] == 1
    assert ups[-1]["desired_replicas"] == 7
    assert ups[-1]["metrics"][0]["proposed_replicas"] == 7
    assert all(line["write"] == "written" and line["level"] == "info" for line in ups + downs)
    assert max(line["desired_replicas"] for line in ups[:-1]) == 5
    assert any(line.get("limit", {}).get("reason") == "ScaleUpLimit" for line in ups[:-1])
    assert {line["reason"] for line in downs} == {ALL_BELOW}
    assert daemon.lines[-1]["event"] == "stopped"
    assert daemon.lines[-1]["signal"] == "SIGTERM"


@pytest.mark.usefixtures("kubelet")
def test_a_drained_queue_has_no_workers_and_one_message_brings_one(
    rabbitmq: RabbitMQ, scraping: PrometheusServer, world: World
) -> None:
    key, mails = world.deploy("mail-worker", 2), external(DEPTH, "30", queue="mails")
    worker = target(world.namespace, "mail-worker", mails, idle={"after": "4s"})
    rabbitmq.publish("mails", 1)
    scraping.wait_for(f'{DEPTH}{{queue="mails"}} == 1')
    with world.start(config(world, scraping, worker, "2s")) as daemon:
        daemon.wait_event("started")
        let_pass(6)
        assert daemon.writes(key) == []
        for _ in range(2):
            assert rabbitmq.consume("mails", 10) == 1
            wait_until(
                "no workers",
                lambda: world.deployment("mail-worker")["status"].get("replicas", 0) == 0,
            )
            rabbitmq.publish("mails", 1)
            world.wait_pods("mail-worker", 1)
        assert daemon.stop() == 0
    steps = [(line["current_replicas"], line["desired_replicas"]) for line in daemon.writes(key)]
    assert steps == [(2, 0), (0, 1), (1, 0), (0, 1)]
