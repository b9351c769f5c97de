"""A configuration of targets that all want four replicas, and a daemon that runs it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.endtoend.daemon import DaemonProcess, Line, write_config

Document = dict[str, Any]
DEMAND = 4


def target(namespace: str, name: str, most: int = 10) -> Document:
    """Return a target of the demand."""
    external = {"metric": {"name": "demand"}, "target": {"type": "AverageValue", "averageValue": 1}}
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": most,
        "metrics": [{"type": "External", "external": external}],
    }


class RunningDaemon:
    """A running daemon and its file."""

    def __init__(self, daemon: DaemonProcess, file: Path) -> None:
        self.daemon = daemon
        self.file = file

    def write(self, document: Document) -> None:
        """Write another configuration, and tell nobody."""
        write_config(self.file, document)

    def events(self, event: str) -> list[Line]:
        """Return the lines of one kind so far."""
        return [line for line in self.daemon.lines if line["event"] == event]

    def wait_for(self, event: str, count: int = 1) -> Line:
        """Wait for so many lines of one kind, and return the last of them."""
        self.daemon.wait_for(f"{count} {event}", lambda _: len(self.events(event)) >= count)
        return self.events(event)[count - 1]

    def first_sync(self, key: str) -> Line:
        """Wait for the first line of a target; those of one sync come in no order."""
        self.daemon.wait_for(f"a sync of {key}", lambda _: bool(self.daemon.syncs(key)))
        return self.daemon.syncs(key)[0]

    def wait_for_write(self, key: str, replicas: int) -> None:
        """Wait until a target was scaled to a count."""
        self.daemon.wait_for(
            f"{key} at {replicas}",
            lambda line: (
                line.get("target") == key
                and line.get("write") == "written"
                and line["desired_replicas"] == replicas
            ),
        )

    def page(self, path: str) -> str:
        """Get a page of the daemon."""
        return requests.get(f"http://{self.address}{path}", timeout=10).text

    @property
    def address(self) -> str:
        """Where the daemon listens."""
        address: str = self.events("listening")[0]["address"]
        return address

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of one series of the metrics page; 0 where there is none."""
        families = text_string_to_metric_families(self.page("/metrics"))
        samples = [sample for family in families for sample in family.samples]
        found = [one.value for one in samples if (one.name, one.labels) == (name, labels)]
        return found[0] if found else 0.0

    def component(self, name: str) -> Document:
        """Return a component of the health."""
        components = yaml.safe_load(self.page("/readyz"))["components"]
        return next((one for one in components if one["name"] == name), {})


@contextmanager
def running(
    file: Path, environment: Mapping[str, str], within: Sequence[str] = ()
) -> Iterator[RunningDaemon]:
    """Run the daemon until it serves; in the end it must stop as it should, without a fault."""
    with DaemonProcess(file, environment, within=within) as daemon:
        running_daemon = RunningDaemon(daemon, file)
        running_daemon.wait_for("started")
        yield running_daemon
        assert daemon.stop() == 0
    assert not running_daemon.events("fault")
    assert not running_daemon.events("sync_failed")
