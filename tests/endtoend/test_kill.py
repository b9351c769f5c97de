"""A daemon that is killed again and again never scales wrongly."""

import os
import random
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.adapters.prometheus.exporter import Exporter
from tests.adapters.prometheus.server import PrometheusServer
from tests.controlplane import workloads
from tests.controlplane.api import Api
from tests.endtoend.daemon import DaemonProcess, write_config
from tests.endtoend.killing import METRIC, Counts, Judge, Load, Rules, changes

KILLS = int(os.environ.get("AUTOSCALER_TEST_KILLS", "12"))
"""200 take about fifteen minutes."""

NAMES = [f"app-{number}" for number in range(6)]
YOUNG, START_SECONDS = 0.25, 3.0
"""The part that is killed within so many seconds, most of it before the first sync."""
LIFE_SECONDS = 5.0


def test_kill_9_at_random_moments_under_load(
    prometheus_exporter: Exporter,
    prometheus_server: PrometheusServer,
    admin_api: Api,
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """Counts stay in bounds and within every policy, and none goes down that its window holds.

    The judge knows the load that was set and every count that was written, over all lives of
    the daemon together: what it allows is what one that was never interrupted would do.
    """
    rules, moments = Rules(window=18, up=(2, 8), down=(2, 7)), random.Random(7)  # noqa: S311 - a test's
    for name in NAMES:
        admin_api.create(
            workloads.collection("Deployment", namespace), workloads.deployment(name, replicas=4)
        )
    file = tmp_path / "autoscaler.yaml"
    load = Load(prometheus_exporter, NAMES, seed=7)
    prometheus_server.wait_for(METRIC, count=len(NAMES))
    write_config(
        file,
        {
            "prometheus": {"url": prometheus_server.url},
            "syncPeriod": "1s",
            "stateDirectory": str(tmp_path / "state"),
            "queries": {METRIC: METRIC},
            "targets": [rules.target(namespace, name) for name in NAMES],
        },
    )
    lives: list[DaemonProcess] = []
    pause = threading.Event()
    with load, Counts(admin_api, namespace) as counts:
        for _ in range(KILLS):
            with DaemonProcess(file, environment) as daemon:
                lives.append(daemon)
                if moments.random() < YOUNG:
                    pause.wait(moments.uniform(0, START_SECONDS))
                else:
                    daemon.wait_for("its start", lambda line: line["event"] == "started")
                    pause.wait(moments.uniform(0, LIFE_SECONDS))
                daemon.kill()
        # The last life shows that the state is still good: it resumes, and goes on scaling.
        seen = sum(len(counts.seen[name]) for name in NAMES)
        with DaemonProcess(file, environment) as daemon:
            daemon.wait_for("what was kept", lambda line: line["event"] == "resumed")
            daemon.wait_for(
                "a change of scale",
                lambda _: sum(len(counts.seen[name]) for name in NAMES) > seen,
            )
            assert daemon.stop() == 0
            lives.append(daemon)
    # A busy machine may see a load, or a count, two seconds late.
    judge = Judge(rules, slack=2.0)
    faults = {name: list(judge.faults(load.levels[name], counts.seen[name])) for name in NAMES}
    assert not any(faults.values()), faults
    lines = [line for life in lives for line in life.lines]
    assert not [line for line in lines if line["event"] in {"fault", "sync_failed"}]
    assert not [line for line in lines if line["event"] == "state" and line["level"] == "warning"]
    made = sum(len(changes(counts.seen[name])) for name in NAMES)
    print(f"{KILLS} kills, {made} changes of scale, {len(lines)} lines")
    assert made >= len(NAMES)
    shutil.rmtree(tmp_path / "state")
