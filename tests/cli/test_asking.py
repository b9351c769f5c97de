"""`autoscaler validate --prometheus` against a real Prometheus, and where there is none."""

import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from autoscaler.cli import validating
from autoscaler.core.selectors import parse
from autoscaler.core.series import QueryResult, Series
from autoscaler.core.target import Query, Target
from autoscaler.rendering.no_series import coverage
from tests.cli.test_commands import ran
from tests.core.builders import average, spec
from tests.core.builders import external as external_metric
from tests.worlds.daemon import write_config
from tests.worlds.process import free_port
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer

WORKER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"}
TARGET = {"namespace": "shop", "scaleTargetRef": WORKER, "maxReplicas": 5}


def external(name: str, query: object = None, **labels: str) -> dict[str, object]:
    """Return an External metric, with a query of its own or that of its name."""
    metric = {"name": name, "query": query, "selector": {"matchLabels": labels}}
    return {
        "type": "External",
        "external": {"metric": metric, "target": {"type": "Value", "value": 1}},
    }


def asked(*files: Path, strict: bool = False) -> tuple[int, str, list[str]]:
    """Validate files; return the exit code, the output, and the lines of what is told beside it."""
    options = ["--prometheus", *["--strict"][: int(strict)]]
    code, out, err = ran("validate", *options, *map(str, files))
    return code, out, err.splitlines()


def write(folder: Path, url: str, queries: dict[str, str], *metrics: dict[str, object]) -> Path:
    """Write a configuration of one target."""
    document = {
        "prometheus": {"url": url, "timeout": "1s"},
        "queries": queries,
        "targets": [TARGET | {"metrics": list(metrics)}],
    }
    return write_config(folder / "a.yaml", document)


MEMORY: dict[str, object] = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}},
}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no kubeconfig to warn of."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")


def test_what_came_back_and_who_uses_it(
    tmp_path: Path, prometheus_server: PrometheusServer, prometheus_exporter: Exporter
) -> None:
    """Of each query the series, one of them, and what each metric finds; what matches is told."""
    for queue, waiting in (("orders", 90.0), ("mails", 7.5)):
        prometheus_exporter.set("asked_messages", {"queue": queue}, waiting)
    prometheus_server.wait_for("asked_messages", count=2)
    queries = {"messages": "sum by (queue) (asked_messages)", "unused": "vector(4)"}
    metrics = (external("messages", queue="orders"), external("messages", queue="order"))
    url = prometheus_server.url
    file = write(tmp_path, url, queries | {"none": "no_such"}, *metrics, external("none"))
    code, out, (selector, empty) = asked(file)
    lines = out.splitlines()
    assert (code, lines[0]) == (0, f"{file}: valid, 1 target")
    assert "queries.messages: 2 series, such as {queue=" in lines[1]
    assert lines[2:4] == [
        '  shop/Deployment/worker External messages{queue="orders"}: finds 1 of 2 series, 90',
        '  shop/Deployment/worker External messages{queue="order"}: finds nothing',
    ]
    assert lines[4].endswith("queries.unused: 1 series, {} 4; no metric uses it")
    assert selector.endswith(
        "warning: targets[0].metrics[1]: shop/Deployment/worker External "
        'messages{queue="order"}: none of the series matches the selector: queue is "mails", '
        '"orders"'
    )
    assert empty.endswith(
        "warning: queries.none: the query returned no series: there are no series no_such; it is "
        "used by shop/Deployment/worker External none"
    )
    assert len(lines) == 5  # the empty answer is told once


def test_values_that_do_not_count(tmp_path: Path, prometheus_server: PrometheusServer) -> None:
    """A series that is there, with NaN or an infinity, is not called nothing."""
    pod = 'label_replace(label_replace(vector(%s), "pod", "worker-1", "", ""), "namespace", "shop"'
    queries = {"ratio": "vector(0) / 0", "most": "vector(1) / 0", "rps": f'{pod % "NaN"}, "", "")'}
    target = {"type": "AverageValue", "averageValue": 1}
    pods: dict[str, object] = {"metric": {"name": "rps"}, "target": target}
    metric: dict[str, object] = {"type": "Pods", "pods": pods}
    metrics = (external("ratio"), external("most"), metric)
    file = write(tmp_path, prometheus_server.url, queries, *metrics)
    code, out, warnings = asked(file)
    assert (code, len(warnings)) == (0, 3)
    assert out.count(": finds no value that counts\n") == 3
    assert "finds nothing" not in out
    assert all("warning: " in warning for warning in warnings)
    code, _, errors = asked(file, strict=True)
    assert code == 2
    assert any("{} is inf, not a number" in error for error in errors)


def test_a_built_in_query_is_empty(tmp_path: Path, prometheus_server: PrometheusServer) -> None:
    """The series that it needs are named, and why a target without metrics asks for them."""
    bare = {"prometheus": {"url": prometheus_server.url}, "targets": [TARGET]}
    file = write(tmp_path, prometheus_server.url, {}, MEMORY)
    code, _, (first, second) = asked(write_config(tmp_path / "bare.yaml", bare), file)
    assert code == 0
    assert first.endswith(
        "warning: targets[0] (built-in query of cpu): the query returned no series: there are no "
        "series container_cpu_usage_seconds_total within 2m; it is used by "
        "shop/Deployment/worker Resource cpu; this built-in query needs cAdvisor's "
        "container_cpu_usage_seconds_total with the labels namespace, pod and container; "
        "a target without `metrics` has the HPA's default metric, cpu at 80 %"
    )
    assert second.endswith(
        "container_memory_working_set_bytes with the labels namespace, pod and container"
    )


def test_containers_that_have_several_series(
    tmp_path: Path, start_prometheus: StartPrometheus, exporter: Exporter
) -> None:
    """The warning names how many, one of them, and what its series differ in."""
    for number in range(3):
        for kubelet in ("10.0.0.1:10250", "[fd00::1]:10250")[: 1 + (number > 0)]:
            labels = {"namespace": "shop", "pod": f"worker-{number}", "container": "app"}
            labels |= {"id": f"/kubepods/{number}", "instance": kubelet}
            exporter.set("container_memory_working_set_bytes", labels, 1.0)
    prometheus = start_prometheus([exporter.target])
    prometheus.wait_for("container_memory_working_set_bytes", count=5)
    file = write(tmp_path, prometheus.url, {}, MEMORY)
    code, out, (warning,) = asked(file)
    assert (code, "finds 3 pods" in out) == (0, True)
    assert "2 containers have several series of container_memory_working_set_bytes" in warning
    assert 'in namespace shop: instance is "10.0.0.1:10250", "[fd00::1]:10250"; each' in warning
    assert asked(file, strict=True)[0] == 2


def test_a_query_that_is_refused(tmp_path: Path, prometheus_server: PrometheusServer) -> None:
    """Prometheus' own words with file, line and key; exit code 2, and the others are asked."""
    queries = {"broken": "sum(up", "ranged": "up[5m]", "fine": "vector(1)"}
    file = write(tmp_path, prometheus_server.url, queries, external("broken"))
    code, out, (broken, ranged) = asked(file)
    lines = file.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "broken: sum" in text)
    assert broken.startswith(f"{file}:{line}: queries.broken: Prometheus refused the query")
    assert "parse error: unclosed left parenthesis" in broken
    assert "queries.ranged: the query returns a matrix" in ranged
    assert (code, "queries.fine: 1 series" in out) == (2, True)


def test_a_query_in_an_included_file(tmp_path: Path, prometheus_server: PrometheusServer) -> None:
    """A metric's own query is told by its place; one PromQL is asked once, wherever it stands."""
    own = external("own", "sum(up")
    included = {"targets": [TARGET | {"metrics": [own, own]}]}
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(included))
    main = {"prometheus": {"url": prometheus_server.url}, "include": ["more.yaml"]}
    code, _, (line,) = asked(write_config(tmp_path / "a.yaml", main))
    assert (code, line.startswith(f"{tmp_path}/more.yaml:")) == (2, True)
    assert "targets[0].metrics[0].external.metric.query: Prometheus refused" in line


def test_a_server_that_does_not_answer_is_told_once(tmp_path: Path) -> None:
    """The reason is told once, most queries are not even asked; exit code 1."""
    queries = {f"q{number}": f"vector({number})" for number in range(30)}
    file = write(tmp_path, f"http://127.0.0.1:{free_port()}", queries, external("q0"))
    code, out, (first, count) = asked(file)
    assert (code, out) == (1, f"{file}: valid, 1 target\n")
    assert "no answer: Prometheus at http://127.0.0.1:" in first
    assert first.endswith("refused the connection")
    assert count == "30 queries have no answer"


@pytest.fixture
def slow_server() -> Iterator[tuple[str, threading.Event]]:
    """Give a server that answers once an event is set."""
    go_on = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            go_on.wait(10)
            body = b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", go_on
        go_on.set()
        server.shutdown()
        thread.join()


def test_what_is_waited_for(
    tmp_path: Path, slow_server: tuple[str, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it lasts, the server is named, and how many queries are done."""
    url, go_on = slow_server
    complain = validating._complain

    def noted(line: str) -> None:
        complain(line)
        go_on.set()

    monkeypatch.setattr(validating, "_NOTE_SECONDS", 0.01)
    monkeypatch.setattr(validating, "_complain", noted)
    told = asked(write(tmp_path, url, {"q": "up"}, external("q")))[2]
    assert f"waiting for Prometheus at {url}: 0 of 1 queries are done" in told


def test_warnings_are_bounded(tmp_path: Path, slow_server: tuple[str, threading.Event]) -> None:
    """Of very many metrics that find nothing some are told."""
    url, go_on = slow_server
    go_on.set()
    file = write(
        tmp_path, url, {"q": "1"}, *[external("q", queue=f"q{number}") for number in range(50)]
    )
    code, out, (*warnings, last) = asked(file)
    assert (code, len(warnings)) == (0, 20)
    assert "  and 47 more metrics\n" in out
    assert last == "these are 20 warnings, and more are not looked for"


def test_each_server_is_asked_its_own(tmp_path: Path, prometheus_server: PrometheusServer) -> None:
    """By its name; one that is away is named, and the queries of the others are answered."""
    away, url = f"http://127.0.0.1:{free_port()}", prometheus_server.url
    servers = {"mimir": {"url": url}, "away": {"url": away, "timeout": "500ms"}}
    usual = TARGET | {"metrics": [external("here")], "server": "mimir"}

    def default(promql: str) -> dict[str, str]:
        return {"query": promql, "server": "default"}

    document = {
        "prometheus": {"url": url, "timeout": "1s", "servers": servers},
        "queries": {"here": "vector(1)", "there": {"query": "vector(2)", "server": "away"}},
        "targets": [
            usual
            | {"metrics": [external("here"), external("own", "vector(7)")]}
            | {"minReplicasQuery": default("vector(2.5)")}
            | {"maxReplicasQuery": default("no_such_series")}
            | {"holdScaleDownQuery": default("vector(0) == 0")},
            usual
            | {"scaleTargetRef": WORKER | {"name": "other"}}
            | {"holdScaleDownQuery": default("nothing_holds")},
            usual
            | {"scaleTargetRef": WORKER | {"name": "third"}}
            | {"holdScaleDownQuery": default("vector(0) / 0")},
        ],
    }
    code, out, told = asked(write_config(tmp_path / "a.yaml", document))
    lines = [line.partition("a.yaml:")[2].partition(": ")[2] or line for line in out.splitlines()]
    worker = "shop/Deployment/worker"
    assert code == 1
    assert lines[1:] == [
        "targets[0].minReplicasQuery: 1 series, {} 2.5",
        f"  {worker} minReplicas: finds 2500m",
        "targets[0].holdScaleDownQuery: 1 series, {} 0",
        (
            f"  {worker} holdScaleDownQuery: no scale-down while holdScaleDownQuery returns a "
            "value without labels"
        ),
        "  shop/Deployment/other holdScaleDownQuery: holds nothing now",
        "targets[2].holdScaleDownQuery: 1 series, {} nan",
        "queries.here at the server mimir: 1 series, {} 1",
        f"  {worker} External here: finds 1 of 1 series, 1",
        "  shop/Deployment/other External here: finds 1 of 1 series, 1",
        "  shop/Deployment/third External here: finds 1 of 1 series, 1",
        "targets[0].metrics[1].external.metric.query at the server mimir: 1 series, {} 7",
        f"  {worker} External own: finds 1 of 1 series, 7",
    ]
    bound, unknown, unanswered = told
    assert "targets[2].holdScaleDownQuery: shop/Deployment/third" in unknown
    assert "{} is nan" in unknown
    assert f"targets[0].maxReplicasQuery: {worker} maxReplicas: " in bound
    assert bound.endswith("no_such_series")
    assert "queries.there at the server away: " in unanswered
    assert away in unanswered


EMPTY, NAN = Query("q", empty_is_zero=True), Query("q", nan_is_zero=True)


@pytest.mark.parametrize(
    ("queue", "value", "query", "said"),
    [
        ("mails", 5.0, EMPTY, "no series, counted as 0 (empty: zero)"),
        ("orders", math.nan, NAN, "1 of 1 series, 0; 1 NaN, counted as 0 (nan: zero)"),
    ],
)
def test_a_zero_nobody_measured_is_told(queue: str, value: float, query: Query, said: str) -> None:
    """That there was no series of the metric, or that its value was NaN."""
    metric = external_metric(average("10"), "queue", selector=parse("queue=orders"))
    answer = QueryResult((Series({"queue": queue}, value, 0.0),))
    found = coverage(Target("shop", spec(metric), ()), metric, query, answer, 1.0)
    assert found == (f"finds {said}", ())
