"""The built-in queries at a real Prometheus: each running container of a pod counts once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest

from autoscaler.cli.validating import duplicates
from autoscaler.config.conversion import DEFAULTS
from autoscaler.core.observation import Gap, GapKind, PodRequests, PodSamples
from autoscaler.core.readings import read
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.spec import ResourceMetric
from tests.core.builders import container, pod, utilization
from tests.worlds.prometheus.past import sample_line, write_samples
from tests.worlds.prometheus.server import PrometheusServer

NOW = 1_767_225_600.0
SCRAPE = 15.0
EVER, LONG_AGO, A_MINUTE_AGO = NOW - 900.0, NOW - 600.0, NOW - 60.0
CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
STARTS = "container_start_time_seconds"
POD = "web-0"
HALF = 0.6
"""Of the range that a container has run for half of, as rate() extrapolates it."""
MISSING = GapKind.EMPTY
AMBIGUOUS = GapKind.AMBIGUOUS


@dataclass(frozen=True)
class Container:
    """What an endpoint exports of a container: some cores, and as many bytes."""

    id: str
    cores: float = 1.0
    begin: float = LONG_AGO
    end: float = NOW
    started: float | None = EVER
    name: str = "app"
    labels: tuple[tuple[str, str], ...] = (("instance", "10.0.0.1:10250"),)
    unlike: tuple[str, ...] = ()
    """Labels that the start time does not have."""

    def lines(self, namespace: str) -> Iterator[str]:
        labels = {"namespace": namespace, "pod": POD, "container": self.name, **dict(self.labels)}
        if self.id:
            labels["id"] = self.id
        of_start = {key: value for key, value in labels.items() if key not in self.unlike}
        instant = self.begin
        while instant < self.end:
            used = self.cores * (instant - EVER)
            yield sample_line(CPU, labels | {"cpu": "total"}, used, instant)
            yield sample_line(MEMORY, labels, self.cores, instant)
            if self.started is not None:
                yield sample_line(STARTS, of_start, self.started, instant)
            instant += SCRAPE


def scraped(host: str, path: str = "/metrics/cadvisor", **more: str) -> tuple[tuple[str, str], ...]:
    """Return the labels of a scrape of a kubelet."""
    return tuple({"instance": host, "metrics_path": path, **more}.items())


RESOURCE_PATH = "/metrics/resource"
V4, V6 = scraped("10.0.0.1:10250"), scraped("[fd00::1]:10250")
OTHER, OTHER_RESOURCE = scraped("10.0.0.9:10250"), scraped("10.0.0.9:10250", RESOURCE_PATH)
RESOURCE = scraped("10.0.0.1:10250", RESOURCE_PATH)
DEAD = Container("/kubepods/pod1/dead", 2.0, end=NOW - 75.0)
"""Its series is there for five minutes more, since its samples have timestamps."""
NEW = Container("/kubepods/pod1/new", begin=A_MINUTE_AGO, started=A_MINUTE_AGO)
NEWEST = Container("/kubepods/pod1/new", begin=NOW - 5.0, started=NOW - 20.0)
DEAD_ELSEWHERE = replace(DEAD, id="/kubepods/pod0/c", labels=OTHER)
ANONYMOUS = Container("", begin=A_MINUTE_AGO, started=A_MINUTE_AGO, labels=RESOURCE)


def with_image(container: Container) -> Container:
    labels = {"image": f"image:{container.cores}", "name": container.id}
    unlike = ("image", "name", "metrics_path")
    return replace(container, labels=scraped("10.0.0.1:10250", **labels), unlike=unlike)


class Scenario(NamedTuple):
    """The endpoints' containers, and the cores and bytes, or the gap, that are read of them."""

    containers: tuple[Container, ...]
    cores: object = 1
    size: object = 1
    told_apart: bool = False
    """Whether start times tell which of several containers runs."""


SCENARIOS = {
    "one-container": Scenario((Container("/a"),)),
    "no-start-times": Scenario((Container("/a", started=None),)),
    "no-ids": Scenario((Container("", started=None),)),
    "restarted": Scenario((DEAD, NEW), HALF, told_apart=True),
    "restarted-less-than-two-scrapes-ago": Scenario((DEAD, NEWEST), MISSING, told_apart=True),
    "restarted-without-start-times": Scenario(
        (replace(DEAD, started=None), replace(NEW, begin=LONG_AGO, started=None)),
        *(AMBIGUOUS, AMBIGUOUS),
    ),
    "restarted-with-one-start-time": Scenario((replace(DEAD, started=None), NEW), HALF),
    "restarted-with-start-times-without-image": Scenario(
        (with_image(DEAD), with_image(NEW)), HALF, told_apart=True
    ),
    "restarted-with-start-times-without-id": Scenario(
        (replace(DEAD, unlike=("id",)), replace(NEW, unlike=("id",))), AMBIGUOUS, AMBIGUOUS
    ),
    "namesake-on-another-node": Scenario((DEAD_ELSEWHERE, NEW), HALF, told_apart=True),
    # This endpoint has no ids.
    "namesake-on-another-node-by-resource": Scenario(
        (replace(DEAD, id="", labels=OTHER_RESOURCE), ANONYMOUS), HALF, told_apart=True
    ),
    "replica-label": Scenario(
        tuple(Container("/a", labels=scraped("n", prometheus_replica=name)) for name in "ab")
    ),
}
for name, started in {"with": EVER, "without": None}.items():
    running = Container("/a", started=started)
    two = (
        replace(running, labels=V4),
        Container("", started=None if started is None else started + 0.9, labels=RESOURCE),
    )
    inner = replace(running, id="/a/b", cores=0.5)
    several = {
        "two-addresses": (replace(running, labels=V4), replace(running, labels=V6)),
        "two-endpoints": two,
        "resource-decides": (*two, Container("/b", 3.0, started=None)),
        "inner-cgroups": (running, inner, replace(inner, id="/a/c")),
        "node-in-a-container": (
            replace(running, id="/kubepods/pod1/c"),
            replace(running, id="/docker/a1/kubepods/pod1/c"),
        ),
        "finished-init-container": (running, replace(running, id="/i", cores=5.0, name="setup")),
    }
    SCENARIOS |= {
        f"{scenario}-{name}-start-times": Scenario(containers)
        for scenario, containers in several.items()
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """Give a Prometheus that has scraped every scenario, each in a namespace."""
    folder = tmp_path_factory.mktemp("usage")
    lines = (
        line
        for number, scenario in enumerate(SCENARIOS.values())
        for container in scenario.containers
        for line in container.lines(f"n{number}")
    )
    write_samples(folder, sorted(lines))
    with PrometheusServer(folder) as server:
        yield server.start()


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_each_running_container_counts_once(server: PrometheusServer, resource: str) -> None:
    """What cannot be decided is ambiguous, and the pod has no sample; nothing is added up."""
    query = DEFAULTS[resource]
    found = server.samples(query.promql, NOW)
    answer = QueryResult([Series(labels, value, NOW) for labels, value in found])
    init = (container("setup", cpu="1"),)
    pods = (pod(POD, requests=PodRequests((container("app", cpu="1"),), init)),)
    metric = ResourceMetric(resource, utilization(50))
    wrong = {}
    for number, (name, scenario) in enumerate(SCENARIOS.items()):
        expected = scenario.cores if resource == "cpu" else scenario.size
        reading = read(metric, query, answer, f"n{number}", pods, NOW)
        assert isinstance(reading, Gap | PodSamples)
        got = (
            reading.kind if isinstance(reading, Gap) else round(reading.samples[POD].milli / 1e3, 1)
        )
        if got != expected:
            wrong[name] = (got, expected, reading)
    assert not wrong


def test_containers_with_several_series_are_found(server: PrometheusServer) -> None:
    """A restart is no duplicate where start times tell which container runs."""
    count, example = duplicates(MEMORY, ("namespace", "pod", "container"))
    several = {
        name
        for number, name in enumerate(SCENARIOS)
        if server.samples(count.replace("{", f'{{namespace="n{number}",'), NOW)
    }
    assert [value for _, value in server.samples(count, NOW)] == [len(several)]
    assert several == {
        name
        for name, scenario in SCENARIOS.items()
        if [container.name for container in scenario.containers].count("app") > 1
        and not scenario.told_apart
    }
    found = server.samples(example, NOW)
    assert len(found) > 1
    assert len({tuple(labels[name] for name in ("namespace", "pod")) for labels, _ in found}) == 1
