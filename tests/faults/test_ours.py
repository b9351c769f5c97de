"""Faults of our own side: a second daemon, a huge file, unreachable servers at the start."""

import asyncio
import resource
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from autoscaler.config import ConfigError, load
from tests.narrowing import assert_parts
from tests.worlds.cluster import others
from tests.worlds.faults.bed import Bed, defects, says
from tests.worlds.faults.loads import HIGH, LOW, Workloads
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Exchange, FaultProxy
from tests.worlds.waiting import wait_until

IN_MEMORY = "in memory"
NOT_KEPT = 'autoscaler_component_ok{component="state"}'
NOT_A_NUMBER = r"autoscaler\.yaml:\d+: targets\[\d+\]\.maxReplicas: .*\(got "
SUPERSEDED = "another client set {}"
NO_SCALE = "FailedGetScale: .*connection refused"
NO_METRIC = "FailedGetExternalMetric: .*refused the connection"
NOT_YET = "FailedGetScale: waiting for the first list"
CONTROLLED = "controlled by HorizontalPodAutoscaler "
AT_WORK = "uses the state directory"
TAKES_OVER = "takes over"
"""What the operator sees, as patterns."""

_MEETING_SECONDS = 2.3
"""More than half the period of 4 s, and well within the time that it leaves for a write."""


class TwoByTwo:
    """Lets writes through in pairs, so that both of a pair were decided on the same version."""

    def __init__(self) -> None:
        self.turn = 0
        self.met: set[int] = set()
        """The turns with a pair; one that met another's change of the object comes twice."""
        self._first: asyncio.Event | None = None

    async def __call__(self, exchange: Exchange) -> None:
        waiting, self._first = self._first, None
        if waiting is not None:
            self.met.add(self.turn)
            waiting.set()
        else:
            mine = self._first = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(mine.wait(), _MEETING_SECONDS)
            if self._first is mine:
                self._first = None
        await exchange.forward(exchange.request)


def test_of_two_daemons_one_writes_each_count(workloads: Workloads) -> None:
    name, plane, meeting = "twins", workloads.plane, TwoByTwo()
    workloads.begin(name, LOW, LOW)
    config = workloads.configuration(name, syncPeriod="4s")
    turns = 2
    with ExitStack() as stack:
        to_api = stack.enter_context(FaultProxy(plane.url, ca_file=plane.ca_file))
        stack.enter_context(to_api.playing(meeting, lambda request: request.method == "PUT"))
        daemons = [stack.enter_context(workloads.debugged(config, to_api)) for _ in range(2)]
        for daemon in daemons:
            daemon.wait_event("started")
        for turn in range(turns):
            meeting.turn, replicas = turn, LOW if turn % 2 else HIGH
            workloads.demand(name, replicas)
            workloads.wait_for(name, replicas)

        def outcomes() -> list[str]:
            return [line["write"] for daemon in daemons for line in daemon.lines if "write" in line]

        def settled() -> bool:
            found = Counter(outcomes())
            return found["written"] >= turns and found["superseded"] >= len(meeting.met)

        # A daemon that is stopped between a conflict and its look learns nothing of the other.
        wait_until("all pairs settled", settled)
        assert [daemon.stop() for daemon in daemons] == [0, 0]
        lines = [line for daemon in daemons for line in daemon.lines]
    assert workloads.changes(name) == 1 + turns
    assert outcomes().count("written") == turns
    assert outcomes().count("superseded") >= len(meeting.met) > 0
    for line in [line for line in lines if line.get("write") == "superseded"]:
        assert SUPERSEDED.format(line["desired_replicas"]) in line["message"]
    assert defects(lines) == []


def test_a_second_daemon_waits_for_the_state_directory_and_takes_over(
    workloads: Workloads, tmp_path: Path
) -> None:
    name = "heirs"
    workloads.begin(name, LOW, LOW)
    config = workloads.configuration(name, stateDirectory=str(tmp_path / "state"))
    with workloads.start(config) as first, ExitStack() as stack:
        first.wait_event("started")
        second = stack.enter_context(workloads.start(config))
        waits = second.wait_event("state")
        assert waits["level"] == "warning"
        assert_parts(waits["message"], f"process {first.pid} ", str(tmp_path / "state"), AT_WORK)
        workloads.demand(name, HIGH)
        workloads.wait_for(name, HIGH)
        assert not {"started", "sync"} & {line["event"] for line in second.lines}
        first.kill()
        second.wait_for(
            "it takes over",
            lambda line: line["event"] == "state" and TAKES_OVER in line["message"],
        )
        second.wait_event("resumed")
        second.wait_event("started")
        workloads.demand(name, LOW)
        workloads.wait_for(name, LOW)
        assert second.stop() == 0
        assert defects([*first.lines, *second.lines]) == []
    assert workloads.changes(name) == 3


@pytest.mark.punctual
def test_syncs_continue_from_memory_while_the_disk_takes_nothing(bed: Bed) -> None:
    assert "held nothing" in bed.daemon.page("/readyz")
    high, low = bed.high_and_low()
    begin, pid = bed.mark(), bed.daemon.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        bed.demand(high, LOW)
        bed.demand(low, HIGH)
        bed.wait_for(high, LOW)
        bed.wait_for(low, HIGH)
        state = bed.daemon.wait_for(
            "the state warning", lambda line: line["event"] == "state" and line["level"] != "info"
        )
        assert IN_MEMORY in state["message"]
        wait_until("state not ok", lambda: f"\n{NOT_KEPT} 0.0\n" in bed.daemon.page("/metrics"))
        assert '"ready": true' in bed.daemon.page("/readyz")
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    bed.check_punctual(low, begin)
    assert defects(bed.daemon.lines[begin:]) == []


def test_ten_thousand_lines_load_and_a_broken_line_is_named(workloads: Workloads) -> None:
    names = ["one-of-many", *(f"absent-{number}" for number in range(420))]
    workloads.begin(names[0], LOW, HIGH)
    with workloads.start(workloads.configuration(*names, syncPeriod="15s")) as daemon:
        lines = daemon.file.read_text().splitlines()
        assert len(lines) > 10_000
        workloads.wait_for(names[0], HIGH, timeout=120)
        last = workloads.key(names[-1])
        daemon.wait_for(
            "last target missing",
            lambda line: line.get("target") == last and "not found" in line["message"],
        )
        assert daemon.stop() == 0
    assert defects(daemon.lines) == []

    number = max(index for index, line in enumerate(lines, 1) if "maxReplicas:" in line)
    lines[number - 1] = "  maxReplicas: many"
    daemon.file.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=NOT_A_NUMBER) as refused:
        load(daemon.file)
    assert str(refused.value).startswith(f"{daemon.file}:{number}: targets[420].")


def test_a_daemon_scales_once_servers_missing_at_its_start_are_there(workloads: Workloads) -> None:
    name, plane = "early", workloads.plane
    workloads.begin(name, HIGH, LOW)
    with (
        FaultProxy(plane.url, ca_file=plane.ca_file) as to_api,
        FaultProxy(workloads.prometheus.url) as to_prometheus,
        ExitStack() as running,
    ):
        config = workloads.configuration(name, prometheus=to_prometheus.url)
        with to_prometheus.refusing():
            with to_api.refusing():
                daemon = running.enter_context(workloads.debugged(config, to_api))
                daemon.wait_for("API server missed", says(NO_SCALE))
            daemon.wait_for("Prometheus is missed", says(NO_METRIC))
            assert workloads.changes(name) == 1
        workloads.wait_for(name, LOW)
        assert daemon.stop() == 0
        assert defects(daemon.lines) == []


def test_nothing_is_written_before_other_autoscalers_can_be_listed(workloads: Workloads) -> None:
    names = lone, *controlled = ["lone", *(f"others-{number}" for number in range(4))]
    for name in controlled:
        others.create(workloads.api, workloads.namespace, others.autoscaler(name, of=name))
    keys = [workloads.begin(name, LOW, HIGH) for name in names]
    config = workloads.configuration(*names)
    forbidden = plays.failure("403 Forbidden", "Forbidden", "no RBAC policy")
    plane = workloads.plane
    with FaultProxy(plane.url, ca_file=plane.ca_file) as to_api, ExitStack() as running:
        with to_api.playing(forbidden, lambda text: "/horizontalpodautoscalers" in text.target):
            daemon = running.enter_context(workloads.debugged(config, to_api))
            wait_until("all synced", lambda: all(daemon.syncs(key) for key in keys))
            assert {workloads.changes(name) for name in names} == {1}
            daemon.wait_for("it says why", says(NOT_YET))
        workloads.wait_for(lone, HIGH)
        daemon.wait_for("HPAs known", says(CONTROLLED))
        assert {workloads.changes(name) for name in controlled} == {1}
        assert daemon.stop() == 0
    assert {workloads.changes(name) for name in controlled} == {1}
    assert defects(daemon.lines) == []
