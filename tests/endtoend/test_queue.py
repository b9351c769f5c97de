"""The product's proof: a queue fills and drains, and a Deployment follows, on real parts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.adapters.prometheus.fixtures import StartPrometheus
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.kubelet import FakeKubelet
from tests.controlplane.waiting import let_pass, wait_until
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.endtoend.rabbitmq import RabbitMQ

NAME, MAILER = "order-worker", "mail-worker"
EXAMPLE = (Path(__file__).parents[2] / "config" / "queue.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """Give a broker with empty queues."""
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq")) as broker:
        for queue in ("orders", "returns", "mails"):
            broker.declare(queue)
        yield broker


def scrape_config(address: str) -> dict[str, object]:
    """Return what the example says about scraping RabbitMQ, for a broker at an address."""
    said = re.search(r"^#   (scrape_configs:\n.*?)^#\n", EXAMPLE, re.DOTALL | re.MULTILINE)
    assert said
    (found,) = yaml.safe_load(said[1].replace("#   ", ""))["scrape_configs"]
    found["static_configs"][0]["targets"] = [address]
    return dict(found)


def config(prometheus: str, namespace: str) -> dict[str, object]:
    """Return the example config/queue.yaml with a quicker sync and a shorter window.

    A sync has 0.9 of its period for all that it asks, which a busy machine may need.
    """
    metric = {
        "name": "rabbitmq_queue_messages_ready",
        "selector": {"matchLabels": {"queue": "orders"}},
    }
    return {
        "prometheus": {"url": prometheus},
        "syncPeriod": "3s",
        "queries": yaml.safe_load(EXAMPLE)["queries"],
        "targets": [
            {
                "namespace": namespace,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
                "minReplicas": 1,
                "maxReplicas": 20,
                "metrics": [
                    {
                        "type": "External",
                        "external": {
                            "metric": metric,
                            "target": {"type": "AverageValue", "averageValue": "30"},
                        },
                    }
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
            }
        ],
    }


def test_a_deployment_follows_its_queue_up_and_down(
    rabbitmq: RabbitMQ,
    start_prometheus: StartPrometheus,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """200 messages at 30 a replica are ceil(200 / 30) = 7 workers; none are the minimum, 1.

    On the way up the default policies allow 4 more than the one of 15 seconds ago, hence 5 and
    then 7; on the way down the empty queue has to last for the window of 5 seconds.
    """
    path = f"{workloads.collection('Deployment', namespace)}/{NAME}"
    admin_api.create(
        workloads.collection("Deployment", namespace), workloads.deployment(NAME, replicas=1)
    )
    prometheus = start_prometheus([scrape_config(rabbitmq.address)])
    prometheus.wait_for('rabbitmq_queue_messages_ready{queue="orders"}')
    target = f"{namespace}/Deployment/{NAME}"
    file = write_config(tmp_path / "autoscaler.yaml", config(prometheus.url, namespace))

    rabbitmq.publish("returns", 50)
    rabbitmq.publish("orders", 200)
    # A scrape while the queue fills would see a part of it.
    prometheus.wait_for('rabbitmq_queue_messages_ready{queue="orders"} == 200')
    with DaemonProcess(file, environment) as daemon:
        wait_until(
            "7 replicas are asked for and ready",
            lambda: admin_api.get(path).get("status", {}).get("readyReplicas") == 7,
            timeout=60,
        )
        assert rabbitmq.consume("orders", 500) == 200
        wait_until(
            "the Deployment is back at 1",
            lambda: admin_api.get(path)["spec"]["replicas"] == 1,
            timeout=60,
        )
        assert daemon.stop() == 0

    rescales = [
        (line["current_replicas"], line["desired_replicas"]) for line in daemon.syncs(target)
    ]
    assert rescales[-1][1] == 1
    ups = [
        line for line in daemon.syncs(target) if line["desired_replicas"] > line["current_replicas"]
    ]
    downs = [
        line for line in daemon.syncs(target) if line["desired_replicas"] < line["current_replicas"]
    ]
    assert ups[-1]["desired_replicas"] == 7
    assert ups[-1]["metrics"][0]["proposed_replicas"] == 7
    assert all(line["write"] == "written" and line["level"] == "info" for line in ups + downs)
    assert max(line["desired_replicas"] for line in ups[:-1]) == 5
    assert any(line.get("limit", {}).get("reason") == "ScaleUpLimit" for line in ups[:-1])
    assert {line["reason"] for line in downs} == {"All metrics below target"}
    assert daemon.lines[-1]["event"] == "stopped"
    assert daemon.lines[-1]["signal"] == "SIGTERM"


def test_a_drained_queue_has_no_workers_and_one_message_brings_one(
    rabbitmq: RabbitMQ,
    start_prometheus: StartPrometheus,
    admin_api: Api,
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """Idle after 4 seconds, whatever the window of five minutes; awake with the next sync.

    While messages are left nothing sleeps, and twice is as good as once.
    """
    path = f"{workloads.collection('Deployment', namespace)}/{MAILER}"
    admin_api.create(
        workloads.collection("Deployment", namespace), workloads.deployment(MAILER, replicas=2)
    )
    prometheus = start_prometheus([scrape_config(rabbitmq.address)])
    document = config(prometheus.url, namespace)
    target = document["targets"][0]  # type: ignore[index] # made above
    target["scaleTargetRef"]["name"] = MAILER
    target["metrics"][0]["external"]["metric"]["selector"] = {"matchLabels": {"queue": "mails"}}
    del target["behavior"]
    target["idle"] = {"after": "4s"}
    file = write_config(tmp_path / "autoscaler.yaml", document | {"syncPeriod": "2s"})
    ready = 'rabbitmq_queue_messages_ready{queue="mails"} == '

    def steps() -> list[tuple[int, int]]:
        lines = daemon.syncs(f"{namespace}/Deployment/{MAILER}")
        return [
            (line["current_replicas"], line["desired_replicas"])
            for line in lines
            if line.get("write") == "written"
        ]

    rabbitmq.publish("mails", 40)
    prometheus.wait_for(f"{ready}40")
    with DaemonProcess(file, environment) as daemon:
        assert rabbitmq.consume("mails", 39) == 39
        prometheus.wait_for(f"{ready}1")
        daemon.wait_for("its start", lambda line: line["event"] == "started")
        let_pass(6)
        assert steps() == []
        for _ in range(2):
            assert rabbitmq.consume("mails", 10) == 1
            wait_until(
                "no worker is left",
                lambda: admin_api.get(path)["status"].get("replicas", 0) == 0,
            )
            rabbitmq.publish("mails", 1)
            wait_until(
                "one worker is ready",
                lambda: admin_api.get(path)["status"].get("readyReplicas") == 1,
            )
        assert daemon.stop() == 0
    assert steps() == [(2, 0), (0, 1), (1, 0), (0, 1)]
