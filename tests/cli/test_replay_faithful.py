"""A replay from a real Prometheus of what a daemon has done gives the same counts."""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from autoscaler import clock
from autoscaler.config import Config, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import Flags
from autoscaler.lab.engine.assumptions import Assumptions, WorkloadAssumption
from autoscaler.lab.engine.building import built
from autoscaler.lab.engine.world import SimulatedTarget, World
from autoscaler.lab.past.prometheus_data import prometheus_data
from autoscaler.lab.past.range_needs import TimeGrid
from autoscaler.prometheus.reader import PrometheusReader
from tests.cli.test_commands import queue_config
from tests.narrowing import instance, known
from tests.replay.fleets import PERIOD, fleet
from tests.replay.test_faithful import Counted, CountingWatcher, Counts
from tests.worlds.daemon import write_config
from tests.worlds.prometheus.past import sample_line, write_samples
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.simulated import SimulatedPorts

HALF_HOUR = 1800.0
BEGIN = math.floor(clock.wall() / HALF_HOUR) * HALF_HOUR - 8 * HALF_HOUR
END = BEGIN + HALF_HOUR
SYNCS = int(HALF_HOUR / PERIOD)
SEED = 3


@dataclass
class _SamplingPorts(SimulatedPorts):
    """Notes each answer as the samples of a Prometheus."""

    lines: list[str] = field(default_factory=list)

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        answer = instance(QueryResult, super().query(promql, at, deadline))
        (name,) = (
            target.workload.name for target in self.targets if f'"{target.workload.name}"' in promql
        )
        for series in answer.series:
            labels = {**series.labels, "target": name}
            self.lines.append(sample_line("load", labels, series.value, self.time.now))
        return answer


@dataclass
class _PrometheusPorts(SimulatedPorts):
    """Asks a real Prometheus, as of the virtual time."""

    reader: PrometheusReader | None = None

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:  # noqa: ARG002 - the port's
        return known(self.reader).query(promql, self.time.now, clock.monotonic() + 30.0)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PrometheusServer, Counts]]:
    """Give a Prometheus that has half an hour of a fleet, and the counts of that time."""
    folder = tmp_path_factory.mktemp("past")
    sampled, counted = _SamplingPorts(fleet(BEGIN, SYNCS, SEED)), Counted()
    sampled.run(BEGIN, END, PERIOD, counted)
    write_samples(folder, sampled.lines)
    with PrometheusServer(folder) as server:
        yield server.start(), counted.counts


def replayed(targets: list[SimulatedTarget], config: Config) -> Counts:
    """Return the counts of a replay that knows the pods at the beginning."""
    assumed = Assumptions(
        workloads=tuple(
            WorkloadAssumption.model_validate(
                {
                    "target": target.key,
                    "replicas": target.workload.replicas,
                    "readyAfter": f"{target.workload.ready_seconds:g}s",
                    "requests": {"cpu": "500m"},
                }
            )
            for target in targets
        )
    )
    configured = [target.rules.target for target in targets]
    grid, watcher = TimeGrid(BEGIN, END, PERIOD), CountingWatcher(BEGIN, END)
    with prometheus_data(config, configured, assumed, grid, None) as data:
        simulated = [built(target, Flags(), data, assumed, BEGIN).target for target in configured]
        for _ in World(simulated, watcher).run(BEGIN, END):
            pass
    return watcher.counts


def test_a_replay_from_prometheus_has_the_counts_of_the_daemon(
    past: tuple[PrometheusServer, Counts], tmp_path: Path
) -> None:
    server, expected = past
    file = write_config(tmp_path / "a.yaml", queue_config(server.url, "shop", "web"))
    config, live = load(file, namespace_or_anywhere), Counted()
    with closing(PrometheusReader(config.servers[""], Event())) as reader:
        ports = _PrometheusPorts(fleet(BEGIN, SYNCS, SEED), reader=reader)
        ports.run(BEGIN, END, PERIOD, live)
    assert live.counts == expected
    ours = replayed(fleet(BEGIN, SYNCS, SEED), config)
    for key, counts in live.counts.items():
        assert {time: ours[key].get(time) for time in counts} == counts, key
