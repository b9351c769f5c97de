"""A schedule that opens while the daemon is away holds from its first sync on."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from autoscaler import clock
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config
from tests.endtoend.demand import DEMAND, Document, running, target

RAISED, LOWERED = 6, 2
SOONEST_SECONDS = 8
"""The daemon has to run and to be killed before a schedule opens."""


def test_a_schedule_that_opens_while_the_daemon_is_away(
    document: Document,
    environment: Mapping[str, str],
    admin_api: Api,
    namespace: str,
    tmp_path: Path,
) -> None:
    """The first sync after the start goes to its bounds, up and down; a gradual one in steps."""
    admin_api.create(
        workloads.collection("Deployment", namespace), workloads.deployment("c", replicas=1)
    )
    opens = (datetime.now(UTC) + timedelta(seconds=SOONEST_SECONDS)).replace(
        second=0, microsecond=0
    ) + timedelta(minutes=1)
    up, gradual, down = (f"{namespace}/Deployment/{name}" for name in "abc")
    one_by_one = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}]}
    document = document | {
        "stateDirectory": str(tmp_path / "state"),
        "targets": [
            scheduled(target(namespace, "a"), opens, minReplicas=RAISED),
            scheduled(target(namespace, "b"), opens, minReplicas=RAISED, gradual=True)
            | {"behavior": {"scaleUp": one_by_one}},
            scheduled(target(namespace, "c"), opens, maxReplicas=LOWERED),
        ],
    }
    file = write_config(tmp_path / "autoscaler.yaml", document)
    with running(file, environment) as daemon:
        for key in (up, gradual, down):
            daemon.wait_for_write(key, DEMAND)
    assert datetime.now(UTC) < opens
    wait_until("the schedules open", lambda: clock.wall() > opens.timestamp(), timeout=70)
    with running(file, environment) as daemon:
        first = daemon.first_sync(up)
        assert (first["current_replicas"], first["desired_replicas"]) == (DEMAND, RAISED)
        assert "schedule rush until" in first["message"]
        assert daemon.first_sync(down)["desired_replicas"] == LOWERED
        daemon.wait_for_write(gradual, RAISED)
        steps = [line for line in daemon.daemon.syncs(gradual) if line.get("write")]
        assert [line["desired_replicas"] for line in steps] == [DEMAND + 1, RAISED]


def scheduled(of: Document, opens: datetime, **bounds: object) -> Document:
    """Return a target with bounds for an hour from an instant on."""
    return of | {
        "schedules": [
            {
                "name": "rush",
                "start": f"{opens.minute} {opens.hour} * * *",
                "end": f"{opens.minute} {(opens.hour + 1) % 24} * * *",
                **bounds,
            }
        ]
    }
