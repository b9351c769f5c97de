"""What Prometheus knows of the past, as the data of a replay: a real server with a past."""

import json
import math
import re
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import clock
from autoscaler.cli.output import CommandError
from autoscaler.config import Config, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.observation import Gap, PodSamples
from autoscaler.core.readings import read
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.spec import ExternalMetric, LabelSelector, ObjectMetric, ScaleTargetRef
from autoscaler.core.target import Query, Target
from autoscaler.core.text import rfc3339
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.assumptions import Assumptions, LoadAssumption
from autoscaler.lab.engine.loads import Total
from autoscaler.lab.past.prometheus_data import PrometheusData, prometheus_data, selected
from autoscaler.lab.past.range_fetching import LATE_SECONDS, FetchedRange, parts_of
from autoscaler.lab.past.range_files import RangeFiles, RangeKey, StoredPart
from autoscaler.lab.past.range_needs import TimeGrid
from autoscaler.lab.past.ranges import Grid, Matrix, MatrixSeries
from tests.adapters.prometheus.reading import answered, query, reading
from tests.adapters.prometheus.test_ranges import matrix, whole
from tests.cli.test_commands import ran
from tests.core.builders import external as external_metric
from tests.core.builders import of_object, pod, value
from tests.narrowing import assert_parts, instance, known
from tests.worlds.daemon import Document, target, write_config
from tests.worlds.daemon import external as metric_of
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer
from tests.worlds.prometheus.past import sample_line, write_samples
from tests.worlds.prometheus.server import PrometheusServer

HOUR = 3600.0
BEGIN = math.floor(clock.wall() / HOUR) * HOUR - 8 * HOUR
END = BEGIN + 6 * HOUR
STEP = 15.0
TIME = TimeGrid(BEGIN + 600.0, BEGIN + 4 * HOUR, STEP)
PODS = {"web-7d9fbb-bcdfg": 0.25, "web-7d9fbb-zzxx2": 1 / 3, "web-api-7d9f-bcdfg": 9.0}
"""The cores that pods use; the last one is another Deployment's."""
POD_LABELS = {"namespace": "shop", "container": "app"}


def past() -> Iterator[str]:
    for number in range(int((END - BEGIN) / STEP)):
        at = BEGIN + number * STEP
        for queue in ("orders", "mail"):
            yield sample_line("depth", {"queue": queue}, float(number % 97 + len(queue)), at)
        yield sample_line("served_total", {}, float(3 * number), at)
        yield sample_line("growing_total", {}, float(number * number), at)
        yield sample_line("ratio", {}, math.nan if number % 10 == 0 else 1.0, at)
        yield sample_line("bound", {"zone": "a"}, 3.0, at)
        if at >= BEGIN + 2 * HOUR:
            yield sample_line("bound", {"zone": "b"}, 4.0, at)
        if at < BEGIN + 2 * HOUR:
            yield sample_line("early", {}, 1.0, at)
        yield from lines_of_pods(number, at)
        # No pod is ready before it is created: a clock was wrong.
        strange = {"namespace": "shop", "pod": "web-7d9fbb-wwww2"}
        yield sample_line("kube_pod_created", strange, BEGIN, at)
        yield sample_line("kube_pod_status_ready_time", strange, BEGIN - 5.0, at)
        web = {"namespace": "shop", "deployment": "web"}
        other = web | {"deployment": "web-api"}
        yield sample_line("kube_deployment_spec_replicas", web, 3.0, at)
        ready = 2.0 if at < BEGIN + HOUR else 3.0
        yield sample_line("kube_deployment_status_replicas_ready", web, ready, at)
        yield sample_line("kube_deployment_status_replicas_ready", other, 9.0, at)


def lines_of_pods(number: int, at: float) -> Iterator[str]:
    for place, (name, cores) in enumerate(PODS.items()):
        labels = {**POD_LABELS, "pod": name}
        used = number * STEP * cores
        yield sample_line("container_cpu_usage_seconds_total", labels, used, at)
        of_pod = {"namespace": "shop", "pod": name}
        yield sample_line("load", of_pod, number % 13 + cores, at)
        yield sample_line("kube_pod_created", of_pod, BEGIN, at)
        yield sample_line("kube_pod_status_ready_time", of_pod, BEGIN + 20.0 + 10.0 * place, at)
        yield sample_line("load", {"namespace": "other", "pod": name}, 1000.0, at)
        requested = {**labels, "resource": "cpu"}
        yield sample_line("kube_pod_container_resource_requests", requested, 0.5, at)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    folder = tmp_path_factory.mktemp("past")
    write_samples(folder, past())
    with PrometheusServer(folder) as server:
        yield server.start()


def external(name: str, promql: str, **labels: str) -> Document:
    metric = metric_of(name, "30", **labels)
    metric["external"]["metric"]["query"] = promql
    return metric


def cpu() -> Document:
    target = {"type": "Utilization", "averageUtilization": 60}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def of_pods(promql: str) -> Document:
    metric = {"name": "load", "query": promql}
    target = {"type": "AverageValue", "averageValue": "5"}
    return {"type": "Pods", "pods": {"metric": metric, "target": target}}


def config_of(folder: Path, url: str, *metrics: Document, **more: Any) -> Config:
    entry = target("shop", "web", *metrics[:1], minReplicas=1, **{"metrics": [*metrics], **more})
    document = {"prometheus": {"url": url}, "targets": [entry]}
    return load(write_config(folder / "autoscaler.yaml", document), namespace_or_anywhere)


@dataclass
class Asking:
    """Configurations of one target, and what a server knows of its past."""

    folder: Path
    url: str
    stack: ExitStack

    def data(
        self,
        *metrics: Document,
        cache: Path | None = None,
        time: TimeGrid = TIME,
        assumptions: Assumptions | None = None,
        **more: Any,
    ) -> tuple[PrometheusData, Target]:
        config = config_of(self.folder, self.url, *metrics, **more)
        assumed = assumptions or Assumptions()
        opened = prometheus_data(config, config.targets, assumed, time, cache)
        return self.stack.enter_context(opened), config.targets[0]


AskAt = Callable[[str | Step], Asking]


@pytest.fixture
def ask_at(tmp_path: Path) -> Iterator[AskAt]:
    """Give what asks the server at an address, or one that answers with a step of a script."""
    with ExitStack() as stack:

        def asking(server: str | Step) -> Asking:
            if not isinstance(server, str):
                server = stack.enter_context(ScriptedServer(server)).url
            return Asking(tmp_path, server, stack)

        yield asking


@pytest.fixture
def asking(server: PrometheusServer, ask_at: AskAt) -> Asking:
    """Ask the server with a past."""
    return ask_at(server.url)


def requests_of(server: PrometheusServer) -> int:
    """Return how many queries a server has answered, by its own count."""
    text = requests.get(f"{server.url}/metrics", timeout=10).text
    pattern = r'^prometheus_http_requests_total\{.*handler="/api/v1/query(?:_range)?"\} (\S+)$'
    return round(sum(map(float, re.findall(pattern, text, re.MULTILINE))))


def values(answers: Answers, *instants: float) -> list[list[float]]:
    """Return the values at some instants, in order."""
    results = [instance(QueryResult, answers(instant)) for instant in instants]
    return [sorted(series.value for series in result.series) for result in results]


# -- the same as a live sync reads ---------------------------------------------------------------


@pytest.mark.parametrize("promql", ["avg_over_time(depth[2m])", "early", "early or depth"])
def test_answers_are_those_of_instant_queries(asking: Asking, promql: str) -> None:
    data, target = asking.data(external("q", promql))
    answers = data.reading(target, 0)
    with reading(asking.url) as reader:
        for number in (0, 1, 101, 459, 460, 461, 479, 481, 500, TIME.points - 1):
            at = TIME.instant(number)
            live = answered(query(reader, promql, at=at))
            replayed = instance(QueryResult, answers(at))
            assert sorted(replayed.series, key=str) == sorted(live.series, key=str)
    assert answers(TIME.end + STEP) == QueryResult(())


@pytest.mark.parametrize(
    "metric",
    [
        cpu(),
        of_pods("load"),
        of_pods('label_replace(load, "x", "y", "", "")'),
        of_pods("load + on (namespace, pod) group_left () load * 2"),
    ],
    ids=["built-in", "own", "not understood", "joined"],
)
def test_totals_are_what_syncs_read_of_the_targets_pods(asking: Asking, metric: Document) -> None:
    data, target = asking.data(metric)
    totals = data.totals(target, 0)
    pods = [pod(name) for name in PODS if "api" not in name]
    with reading(asking.url) as reader:
        for number in (0, 7, 300):
            at = TIME.instant(number)
            live = answered(query(reader, target.queries[0].promql, at=at))
            reading_now = read(target.spec.metrics[0], target.queries[0], live, "shop", pods, at)
            samples = instance(PodSamples, reading_now).samples.values()
            milli = sum(sample.milli for sample in samples)
            assert totals(at) == Total(milli / 1000, 2)


def test_a_query_of_many_targets_gives_each_its_own_series(asking: Asking) -> None:
    data, target = asking.data(external("q", "depth", queue="mail"))
    assert values(data.reading(target, 0), TIME.begin) == [[44.0]]
    assert values(data.answers(target.queries[0].key), TIME.begin) == [[44.0, 46.0]]


def test_bounds_and_arrivals_are_read_too(asking: Asking) -> None:
    stated = LoadAssumption(model="queue", arrivals="rate(served_total[2m])", servedPerPod="1")
    data, target = asking.data(
        external("q", 'depth{queue="mail"}'),
        minReplicasQuery={"query": 'bound{zone="a"}'},
        assumptions=Assumptions(loads=(stated,)),
    )
    ((_, bound),) = data.others(target).items()
    assert values(bound, TIME.begin) == [[3.0]]
    (arrivals,) = [key for key, _ in data.fetched if key.promql.startswith("rate")]
    assert values(data.answers(arrivals), TIME.begin) == [[pytest.approx(0.2)]]


# -- what is kept --------------------------------------------------------------------------------


def test_a_second_run_asks_nothing(server: PrometheusServer, tmp_path: Path) -> None:
    config = config_of(tmp_path, server.url, external("q", "depth"), cpu())
    later = TimeGrid(TIME.begin + HOUR, TIME.end - HOUR, STEP)
    # How often it is looked which pods there were depends on how long the time is.
    of_pods = {"readyAfter": "5s", "requests": {"cpu": "1"}}
    stated = Assumptions.model_validate({"workloads": [of_pods]})
    progress: list[tuple[int, int]] = []
    seen, counts = [], []
    for time in (TIME, TIME, later):
        before = requests_of(server)
        options = (time, tmp_path / "cache", lambda *done: progress.append(done))
        with prometheus_data(config, config.targets, stated, *options) as data:
            reading = data.reading(config.targets[0], 0)
            seen.append(values(reading, later.begin, later.begin + 600.0))
        counts.append(requests_of(server) - before)
    assert (counts[0] > 0, counts[1:]) == (True, [0, 0])
    assert seen[0] == seen[1] == seen[2]
    assert progress[0] == (0, progress[-1][1] or progress[0][1])


def test_without_a_cache_nothing_is_kept(asking: Asking) -> None:
    data, _ = asking.data(external("q", "depth"))
    parts = [part for result in data.fetched.values() for part in result.parts]
    files = [part.file for part in parts if isinstance(part, StoredPart)]
    assert files
    assert all(file.exists() for file in files)
    asking.stack.close()
    assert not any(file.exists() for file in files)


def test_samples_that_may_change_are_asked_again(tmp_path: Path, ask_at: AskAt) -> None:
    now, cache = clock.wall(), tmp_path / "cache"
    time = TimeGrid(now - 3000.0, now, STEP)
    data, _ = ask_at(whole).data(external("q", "depth"), cache=cache, time=time)
    (fetched,) = [value for (key, _), value in data.fetched.items() if key.promql == "depth"]
    kept = [part for part in fetched.parts if str(cache) in str(part[2])]
    grid = fetched.key.grid
    assert grid.instant(kept[-1].end) == pytest.approx(now - LATE_SECONDS, abs=2 * STEP)
    assert fetched.parts[-1].end == grid.first_from(now)


def test_an_incomplete_answer_is_not_kept(tmp_path: Path, ask_at: AskAt) -> None:
    cache = tmp_path / "cache"
    asking = ask_at(answer(matrix({"metric": {}, "values": []}, warnings=["store away"])))
    with pytest.raises(CommandError, match=r"incomplete .* store away"):
        asking.data(external("q", "other"), cache=cache)
    assert not any("other" in file.read_text("latin-1") for file in cache.glob("*/*.range"))


def test_a_damaged_file_is_asked_again(asking: Asking, tmp_path: Path) -> None:
    for _ in range(2):
        data, target = asking.data(external("q", "depth"), cache=tmp_path / "cache")
        assert values(data.reading(target, 0), TIME.begin) == [[44.0, 46.0]]
        asking.stack.close()
        for file in (tmp_path / "cache").glob("*/*.range"):
            file.write_bytes(file.read_bytes()[:-1])


def test_a_cache_that_is_not_a_folder_is_an_error(tmp_path: Path, ask_at: AskAt) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="/file/cache: Not a directory"):
        ask_at("http://127.0.0.1:9").data(external("q", "depth"), cache=tmp_path / "file" / "cache")


def test_memory_does_not_grow_with_the_days(tmp_path: Path) -> None:
    grid = Grid(15_000, 0)
    first = grid.first_from(1_700_006_400.0)
    peaks = []
    for days in (3, 20):
        files, key = RangeFiles(tmp_path / str(days)), RangeKey(str(days), "x", grid)
        parts = []
        for begin, end in parts_of(grid, first, first + 5_760 * days):
            numbers = array("d", range(begin, end))
            series = MatrixSeries({}, [(begin, end - begin)], numbers)
            parts.append(files.write(key, begin, end, Matrix([series])))
        assert len(parts) == days
        time = TimeGrid(grid.instant(first), grid.instant(first + 5_760 * days), STEP)
        answers = FetchedRange(key, tuple(parts)).answers(time)
        tracemalloc.start()
        seen = sum(map(len, values(answers, *map(time.instant, range(0, time.points, 60)))))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert seen == 96 * days
    # A few parts are kept for other targets that read them.
    assert peaks[1] < 3 * peaks[0]


# -- kube-state-metrics --------------------------------------------------------------------------


def test_kube_state_metrics_knows_the_pods_that_ran(asking: Asking) -> None:
    data, target = asking.data(cpu())
    assert values(known(data.ran(target)), TIME.begin, BEGIN + HOUR) == [[3.0], [3.0]]
    assert (data.replicas(target), data.ready_seconds(target)) == (3, 25.0)
    (container,) = known(data.requests(target)).containers
    assert (container.name, container.requests) == ("app", {"cpu": 500_000_000})


def test_pods_without_kube_state_metrics_are_not_known(asking: Asking) -> None:
    shared = Assumptions(loads=(LoadAssumption(model="shared"),))
    ref = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    data, target = asking.data(external("q", "vector(1)"), scaleTargetRef=ref, assumptions=shared)
    known = (data.ran(target), data.replicas(target), data.ready_seconds(target))
    assert (known, data.requests(target)) == ((None, None, None), None)
    total = instance(QueryFailure, data.totals(target, 0)(TIME.begin))
    assert "average" in total.message


LABELS = st.dictionaries(
    st.sampled_from(["namespace", "service", "queue"]), st.sampled_from(["shop", "mail", "other"])
)


@given(
    st.lists(st.tuples(LABELS, st.sampled_from([1.0, 2.0, math.nan])), max_size=5),
    st.sampled_from(
        [
            of_object(value("1"), ScaleTargetRef("v1", "Service", "mail")),
            of_object(value("1"), ScaleTargetRef("v1", "Namespace", "mail")),
            external_metric(value("1")),
            external_metric(value("1"), selector=LabelSelector((("queue", "mail"),))),
        ]
    ),
)
def test_series_that_are_left_out_make_no_difference(
    several: list[tuple[dict[str, str], float]], metric: ObjectMetric | ExternalMetric
) -> None:
    unlike = {json.dumps(labels, sort_keys=True): (labels, of) for labels, of in several}
    series = [MatrixSeries(labels, [(0, 1)], array("d", [of])) for labels, of in unlike.values()]
    readings = []
    for some in (series, selected(metric, Query("q"), Matrix(series)).series):
        result = QueryResult([Series(item.labels, item.values[0], 0.0) for item in some])
        reading = read(metric, Query("q"), result, "shop", (), 0.0)
        readings.append(reading.kind if isinstance(reading, Gap) else reading)
    assert readings[0] == readings[1]


# -- odd data ------------------------------------------------------------------------------------


def of_service(promql: str) -> Document:
    """Return a metric of the Service `mail`, whose series have the queue as the service."""
    labelled = f'label_replace({promql}, "service", "$1", "queue", "(.+)")'
    service = {"apiVersion": "v1", "kind": "Service", "name": "mail"}
    metric, target = {"name": "q", "query": labelled}, {"type": "Value", "value": "5"}
    return {
        "type": "Object",
        "object": {"describedObject": service, "metric": metric, "target": target},
    }


GOOD = external("good", "vector(1)")
DEPTH = external("q", "depth")
EACH_DEPTH = [external(metric, f'depth{{queue="{metric}"}}') for metric in "abc"]
TWO_MAILS = 'label_replace(bound, "queue", "mail", "", "") or depth'
BOUND = {"minReplicasQuery": {"query": "bound"}}
FIRST, LAST, LATER = map(rfc3339, (TIME.begin, TIME.end, BEGIN + 2 * HOUR))
ODD: dict[str, tuple[list[Document], Document, list[str]]] = {
    "no data": ([external("q", "none")], {}, [" q: ", " none ", f"{FIRST} to {LAST}"]),
    "a counter": ([external("q", "served_total")], {}, [" q: ", " served_total ", "counter"]),
    "gaps": ([external("q", "ratio")], {}, [" q: ", " ratio ", "NaN", "10 %"]),
    "not PromQL": ([external("q", "sum(")], {}, [" q: ", " sum( ", "parse error"]),
    "gaps of pods": ([of_pods("(load - load) / (load - load)"), cpu()], {}, ["NaN", "100 %"]),
    "several queries": ([*EACH_DEPTH], {}, [" a: ", 'depth{queue="a"}', "(2 more"]),
    "an object": ([of_service(TWO_MAILS)], {}, [" q: ", f"2 series at {FIRST}"]),
    "a bound": ([DEPTH], BOUND, [" bound ", FIRST, f"2 series at {LATER}"]),
}


@pytest.mark.parametrize(("metrics", "more", "parts"), ODD.values(), ids=ODD)
def test_odd_data_has_one_note(
    asking: Asking, metrics: list[Document], more: Document, parts: list[str]
) -> None:
    (note,) = asking.data(*metrics, GOOD, **more)[0].told
    assert_parts(note, "shop/Deployment/web: ", *parts)


GROWING = external("q", "rate(growing_total[2m])")


@pytest.mark.parametrize("metric", [DEPTH, GROWING, GOOD, of_service("depth")])
def test_good_data_has_no_note(asking: Asking, metric: Document) -> None:
    assert not asking.data(metric)[0].told


def test_a_selector_that_matches_nothing_is_an_error(asking: Asking) -> None:
    with pytest.raises(CommandError) as caught:
        asking.data(external("q", "depth", queue="none"))
    assert_parts(caught.value, " q: ", " depth ", FIRST, "it gives series")


def test_pods_of_a_custom_kind_are_those_that_begin_with_its_name(ask_at: AskAt) -> None:
    of_pod = {"namespace": "shop", "pod": "jobs-anything"}

    def load_of_pod(peer: Peer) -> None:
        at = float(re.findall("start=([0-9.]+)", peer.received.body.decode())[0])
        answer(matrix({"metric": of_pod, "values": [[at, "1"]]}))(peer)

    ref = {"apiVersion": "example.org/v1", "kind": "JobSet", "name": "jobs"}
    data, target = ask_at(load_of_pod).data(of_pods("load"), scaleTargetRef=ref)
    assert data.totals(target, 0)(TIME.begin) == Total(1.0, 1)
    (note,) = data.told
    assert_parts(note, "shop/JobSet.example.org/jobs: ", " jobs-: ")


def test_a_part_that_is_not_read_is_a_failure_of_its_time(tmp_path: Path, ask_at: AskAt) -> None:
    time = TimeGrid(1_700_006_400.0, 1_700_006_400.0 + 3 * 86_400, STEP)
    days: list[float] = []

    def second_day_is_broken(peer: Peer) -> None:
        sent = peer.received.body.decode()
        if "query=depth" not in sent:
            answer(matrix())(peer)
            return
        days.append(float(re.findall("start=([0-9.]+)", sent)[0]))
        (answer("broken", "500 Internal Server Error") if len(days) == 2 else whole)(peer)

    asking = ask_at(second_day_is_broken)
    cached: dict[str, Any] = {"cache": tmp_path / "cache", "time": time}
    data, target = asking.data(external("q", "depth"), **cached)
    asking.data(external("q", "depth"), **cached)  # which asks the failed part again
    assert [round((day - time.begin) / 86_400) for day in days] == [0, 1, 2, 1]
    answers = data.reading(target, 0)
    kinds = [type(answers(time.begin + day * 86_400)) for day in range(3)]
    assert kinds == [QueryResult, QueryFailure, QueryResult]
    (note,) = [text for text in data.told if "86400 s" in text]
    assert_parts(note, "shop/Deployment/web: q: ", " depth ", "HTTP 500", ": broken")


# -- the command ---------------------------------------------------------------------------------


def test_a_second_replay_asks_prometheus_nothing(server: PrometheusServer, tmp_path: Path) -> None:
    metrics = (external("q", 'depth{queue="mail"}'), external("r", "ratio"))
    config_of(tmp_path, server.url, *metrics)
    arguments = (
        *("replay", "--config", str(tmp_path / "autoscaler.yaml"), "-o", "json"),
        *("--since", rfc3339(TIME.begin + HOUR), "--until", rfc3339(TIME.end)),
        *("--cache", str(tmp_path / "cache")),
    )
    code, out, err = ran(*arguments)
    assert (code, err.count("note: ")) == (0, 1)
    assert_parts(err, "note: shop/Deployment/web: r: ", " ratio ", "NaN")
    document: dict[str, Any] = json.loads(out)
    (target,) = document["targets"]
    assert target["target"] == "shop/Deployment/web"
    assert target["ran"] is not None
    assert target["firstReplicas"] == 3
    before = requests_of(server)
    assert ran(*arguments) == (code, out, err)
    assert requests_of(server) == before
