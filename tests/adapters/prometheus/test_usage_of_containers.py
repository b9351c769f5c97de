"""The built-in queries at a real Prometheus: each running container of a pod counts once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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


def at(instance: str, path: str = "/metrics/cadvisor", **more: str) -> tuple[tuple[str, str], ...]:
    return tuple({"instance": instance, "metrics_path": path, **more}.items())


V4, V6 = at("10.0.0.1:10250"), at("[fd00::1]:10250")
RESOURCE = at("10.0.0.1:10250", "/metrics/resource")
DEAD = Container("/kubepods/pod1/dead", 2.0, end=NOW - 75.0)
"""Its series is there for five minutes more, since its samples have timestamps."""
NEW = Container("/kubepods/pod1/new", begin=A_MINUTE_AGO, started=A_MINUTE_AGO)
NEWEST = Container("/kubepods/pod1/new", begin=NOW - 5.0, started=NOW - 20.0)
INNER = "/docker/a1/kubepods/pod1/c"

SCENARIOS: dict[str, tuple[tuple[Container, ...], object, object]] = {
    "one container": ((Container("/a"),), 1, 1),
    "no start times": ((Container("/a", started=None),), 1, 1),
    "no ids": ((Container("", started=None),), 1, 1),
    "restarted": ((DEAD, NEW), HALF, 1),
    "restarted, and not two scrapes ago": ((DEAD, NEWEST), MISSING, 1),
    "restarted without start times": (
        (replace(DEAD, started=None), replace(NEW, begin=LONG_AGO, started=None)),
        AMBIGUOUS,
        AMBIGUOUS,
    ),
    "restarted, and only the new one has a start time": (
        (replace(DEAD, started=None), NEW),
        HALF,
        1,
    ),
    "restarted, and the image is not a label of the start time": (
        tuple(
            replace(
                each,
                labels=at("10.0.0.1:10250", image=f"image:{each.cores}", name=each.id),
                unlike=("image", "name", "metrics_path"),
            )
            for each in (DEAD, NEW)
        ),
        HALF,
        1,
    ),
    "restarted, and the id is not a label of the start time": (
        tuple(replace(each, unlike=("id",)) for each in (DEAD, NEW)),
        AMBIGUOUS,
        AMBIGUOUS,
    ),
    "a pod of the same name on another node": (
        (Container("/kubepods/pod0/c", 2.0, end=NOW - 75.0, labels=at("10.0.0.9:10250")), NEW),
        HALF,
        1,
    ),
    "the same on /metrics/resource, which has no ids": (
        (
            Container("", 2.0, end=NOW - 75.0, labels=at("10.0.0.9:10250", "/metrics/resource")),
            Container("", begin=A_MINUTE_AGO, started=A_MINUTE_AGO, labels=RESOURCE),
        ),
        HALF,
        1,
    ),
    "a replica label": (
        tuple(Container("/a", labels=at("n", prometheus_replica=name)) for name in "ab"),
        1,
        1,
    ),
}
for name, started in {"with": EVER, "without": None}.items():
    two = (
        Container("/a", started=started, labels=V4),
        Container("", started=None if started is None else started + 0.9, labels=RESOURCE),
    )
    SCENARIOS |= {
        f"two addresses of a kubelet, {name} start times": (
            tuple(Container("/a", started=started, labels=labels) for labels in (V4, V6)),
            1,
            1,
        ),
        f"/metrics/cadvisor and /metrics/resource, {name} start times": (two, 1, 1),
        f"/metrics/resource decides, {name} start times": (
            (*two, Container("/b", 3.0, started=None)),
            1,
            1,
        ),
        f"cgroups within that of the container, {name} start times": (
            (
                Container("/a", started=started),
                Container("/a/b", 0.5, started=started),
                Container("/a/c", 0.5, started=started),
            ),
            1,
            1,
        ),
        f"a node that is a container, {name} start times": (
            (Container("/kubepods/pod1/c", started=started), Container(INNER, started=started)),
            1,
            1,
        ),
        f"a finished init container, {name} start times": (
            (Container("/a", started=started), Container("/i", 5.0, started=started, name="setup")),
            1,
            1,
        ),
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """Give a Prometheus that has scraped every scenario, each in a namespace."""
    folder = tmp_path_factory.mktemp("usage")
    lines = (
        line
        for number, (containers, _, _) in enumerate(SCENARIOS.values())
        for each in containers
        for line in each.lines(f"n{number}")
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
    for number, (name, (_, cores, size)) in enumerate(SCENARIOS.items()):
        expected = cores if resource == "cpu" else size
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
        for name, (containers, _, _) in SCENARIOS.items()
        if len([each for each in containers if each.name == "app"]) > 1
        and name
        not in {
            "restarted",
            "restarted, and not two scrapes ago",
            "restarted, and the image is not a label of the start time",
            "a pod of the same name on another node",
            "the same on /metrics/resource, which has no ids",
        }
    }
    found = server.samples(example, NOW)
    assert len(found) > 1
    assert len({tuple(labels[name] for name in ("namespace", "pod")) for labels, _ in found}) == 1
