"""`autoscaler validate --prometheus` against a real Prometheus, and where there is none."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from autoscaler.cli import validating
from tests.cli.test_commands import ran
from tests.narrowing import assert_parts
from tests.worlds.daemon import write_config
from tests.worlds.process import free_port
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.faults import Peer, ScriptedServer, answer
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer

WORKER_KEY = "shop/Deployment/worker"
WORKER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"}
TARGET = {"namespace": "shop", "scaleTargetRef": WORKER, "maxReplicas": 5}


def external(name: str, query: object = None, **labels: str) -> dict[str, object]:
    """Return an External metric, with a query of its own or that of its name."""
    metric = {"name": name, "query": query, "selector": {"matchLabels": labels}}
    return {
        "type": "External",
        "external": {"metric": metric, "target": {"type": "Value", "value": 1}},
    }


def validated(*files: Path, strict: bool = False) -> tuple[int, str, list[str]]:
    """Validate files; return the exit code, the output, and the lines of the standard error."""
    options = ["--prometheus", *["--strict"][: int(strict)]]
    code, out, err = ran("validate", *options, *map(str, files))
    return code, out, err.splitlines()


MEMORY: dict[str, object] = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}},
}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, prometheus_server: PrometheusServer) -> Write:
    """Give what writes a configuration of one target, with the shared server unless told."""

    def written(queries: object, *metrics: object, url: str = prometheus_server.url) -> Path:
        document = {
            "prometheus": {"url": url, "timeout": "1s"},
            "queries": queries,
            "targets": [TARGET | {"metrics": list(metrics)}],
        }
        return write_config(tmp_path / "a.yaml", document)

    return written


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no kubeconfig to warn of."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")


def test_each_query_is_shown_with_its_series_and_its_metrics(
    write: Write, prometheus_server: PrometheusServer, prometheus_exporter: Exporter
) -> None:
    for queue, waiting in (("orders", 90.0), ("mails", 7.5)):
        prometheus_exporter.set("asked_messages", {"queue": queue}, waiting)
    prometheus_server.wait_for("asked_messages", count=2)
    queries = {"messages": "sum by (queue) (asked_messages)", "unused": "vector(4)"}
    metrics = (external("messages", queue="orders"), external("messages", queue="order"))
    file = write(queries | {"none": "no_such"}, *metrics, external("none"))
    code, out, (selector, empty) = validated(file)
    head, messages, orders, order, unused = out.splitlines()
    assert (code, head) == (0, f"{file}: valid, 1 target")
    assert_parts(messages, "queries.messages: ", " 2 series", "{queue=")
    assert_parts(orders, f'  {WORKER_KEY} External messages{{queue="orders"}}: ', "1 of 2", " 90")
    assert_parts(order, f'  {WORKER_KEY} External messages{{queue="order"}}: ')
    assert_parts(unused, "queries.unused: ", " 1 series", " 4; ")
    place = f'targets[0].metrics[1]: {WORKER_KEY} External messages{{queue="order"}}: '
    assert_parts(selector, "warning: ", place, '"mails", "orders"')
    assert_parts(empty, "warning: queries.none: ", "no_such; ", f"{WORKER_KEY} External none")


def test_a_series_without_a_finite_value_is_a_warning(write: Write) -> None:
    pod = 'label_replace(label_replace(vector(%s), "pod", "worker-1", "", ""), "namespace", "shop"'
    queries = {"ratio": "vector(0) / 0", "most": "vector(1) / 0", "rps": f'{pod % "NaN"}, "", "")'}
    target = {"type": "AverageValue", "averageValue": 1}
    pods = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}}
    file = write(queries, external("ratio"), external("most"), pods)
    code, out, warnings = validated(file)
    assert (code, len(warnings), out.count("no value")) == (0, 3, 3)
    assert "finds nothing" not in out
    assert all("warning: " in warning for warning in warnings)
    code, _, errors = validated(file, strict=True)
    assert (code, any(" inf" in error for error in errors)) == (2, True)


def test_an_empty_built_in_query_names_the_series_that_it_needs(write: Write) -> None:
    file = write({}, MEMORY)
    document = yaml.safe_load(file.read_text()) | {"targets": [TARGET]}
    code, _, warnings = validated(write_config(file.with_name("bare.yaml"), document), file)
    assert (code, len(warnings)) == (0, 2)
    place = "warning: targets[0] (built-in query of cpu): "
    assert_parts(warnings[0], place, f"{WORKER_KEY} Resource cpu; ", " cpu at 80 %")
    series = ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes")
    for warning, name in zip(warnings, series, strict=True):
        assert_parts(warning, f"{name} ", "namespace, pod")


def test_containers_with_several_series_are_a_warning(
    write: Write, start_prometheus: StartPrometheus, exporter: Exporter
) -> None:
    for number in range(3):
        for kubelet in ("10.0.0.1:10250", "[fd00::1]:10250")[: 1 + (number > 0)]:
            labels = {"namespace": "shop", "pod": f"worker-{number}", "container": "app"}
            labels |= {"id": f"/kubepods/{number}", "instance": kubelet}
            exporter.set("container_memory_working_set_bytes", labels, 1.0)
    prometheus = start_prometheus([exporter.target])
    prometheus.wait_for("container_memory_working_set_bytes", count=5)
    file = write({}, MEMORY, url=prometheus.url)
    code, out, (warning,) = validated(file)
    assert (code, " 3 pods" in out) == (0, True)
    assert_parts(warning, ": 2 containers", "container_memory_working_set_bytes", "namespace shop")
    assert_parts(warning, "instance ", '"10.0.0.1:10250", "[fd00::1]:10250"; ')
    assert validated(file, strict=True)[0] == 2


def test_a_refused_query_has_its_line_and_the_others_are_asked(write: Write) -> None:
    queries = {"broken": "sum(up", "ranged": "up[5m]", "fine": "vector(1)"}
    file = write(queries, external("broken"))
    code, out, (broken, ranged) = validated(file)
    lines = file.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "broken: sum" in text)
    assert broken.startswith(f"{file}:{line}: queries.broken: ")
    assert "parse error" in broken
    assert_parts(ranged, "queries.ranged: ", " matrix")
    assert (code, "queries.fine: 1 series" in out) == (2, True)


def test_a_refused_query_has_its_place_in_the_included_file(
    tmp_path: Path, prometheus_server: PrometheusServer
) -> None:
    own = external("own", "sum(up")
    included = {"targets": [TARGET | {"metrics": [own, own]}]}
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(included))
    main = {"prometheus": {"url": prometheus_server.url}, "include": ["more.yaml"]}
    code, _, (line,) = validated(write_config(tmp_path / "a.yaml", main))
    assert code == 2
    assert_parts(line, f"{tmp_path}/more.yaml:", "targets[0].metrics[0].external.metric.query: ")


def test_a_server_that_does_not_answer_has_one_reason_for_all_queries(write: Write) -> None:
    queries = {f"q{number}": f"vector({number})" for number in range(30)}
    url = f"http://127.0.0.1:{free_port()}"
    file = write(queries, external("q0"), url=url)
    code, out, (first, count) = validated(file)
    assert (code, out) == (1, f"{file}: valid, 1 target\n")
    assert_parts(first, url, "refused")
    assert count.startswith("30 queries ")


SCALAR = answer({"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}})


def test_a_slow_server_is_named_with_the_number_of_done_queries(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, complain = threading.Event(), validating._complain

    def note(line: str) -> None:
        complain(line)
        noted.set()

    def answer_late(peer: Peer) -> None:
        noted.wait(10)
        SCALAR(peer)

    monkeypatch.setattr(validating, "_NOTE_SECONDS", 0.01)
    monkeypatch.setattr(validating, "_complain", note)
    with ScriptedServer(answer_late) as server:
        notes = validated(write({"q": "up"}, external("q"), url=server.url))[2]
    assert_parts(notes[0], f" {server.url}: 0 of 1 ")


def test_warnings_are_bounded(write: Write) -> None:
    metrics = [external("q", queue=f"q{number}") for number in range(50)]
    with ScriptedServer(SCALAR) as server:
        code, out, (*warnings, last) = validated(write({"q": "1"}, *metrics, url=server.url))
    assert (code, len(warnings)) == (0, 20)
    assert " 47 more metrics\n" in out
    assert " 20 warnings" in last


def test_each_server_is_asked_its_own(tmp_path: Path, prometheus_server: PrometheusServer) -> None:
    away, url = f"http://127.0.0.1:{free_port()}", prometheus_server.url
    servers = {"mimir": {"url": url}, "away": {"url": away, "timeout": "500ms"}}
    usual = TARGET | {"metrics": [external("here")], "server": "mimir"}

    def at_default(**queries: str) -> dict[str, object]:
        return {key: {"query": promql, "server": "default"} for key, promql in queries.items()}

    def other(name: str, hold: str) -> dict[str, object]:
        scaled = {"scaleTargetRef": WORKER | {"name": name}}
        return usual | scaled | at_default(holdScaleDownQuery=hold)

    document = {
        "prometheus": {"url": url, "timeout": "1s", "servers": servers},
        "queries": {"here": "vector(1)", "there": {"query": "vector(2)", "server": "away"}},
        "targets": [
            usual
            | {"metrics": [external("here"), external("own", "vector(7)")]}
            | at_default(
                minReplicasQuery="vector(2.5)",
                maxReplicasQuery="no_such_series",
                holdScaleDownQuery="vector(0) == 0",
            ),
            other("other", "nothing_holds"),
            other("third", "vector(0) / 0"),
        ],
    }
    code, out, (bound, unknown, unanswered) = validated(write_config(tmp_path / "a.yaml", document))
    lines = [line.partition("a.yaml:")[2].partition(": ")[2] or line for line in out.splitlines()]
    held, free = [line for line in lines if " holdScaleDownQuery: " in line]
    assert code == 1
    assert_parts(held, f"  {WORKER_KEY} ", "no scale-down")
    assert_parts(free, "  shop/Deployment/other ", "nothing")
    assert [line for line in lines[1:] if line not in {held, free}] == [
        "targets[0].minReplicasQuery: 1 series, {} 2.5",
        f"  {WORKER_KEY} minReplicas: finds 2500m",
        "targets[0].holdScaleDownQuery: 1 series, {} 0",
        "targets[2].holdScaleDownQuery: 1 series, {} nan",
        "queries.here at the server mimir: 1 series, {} 1",
        f"  {WORKER_KEY} External here: finds 1 of 1 series, 1",
        "  shop/Deployment/other External here: finds 1 of 1 series, 1",
        "  shop/Deployment/third External here: finds 1 of 1 series, 1",
        "targets[0].metrics[1].external.metric.query at the server mimir: 1 series, {} 7",
        f"  {WORKER_KEY} External own: finds 1 of 1 series, 7",
    ]
    assert_parts(unknown, "targets[2].holdScaleDownQuery: shop/Deployment/third", " nan")
    assert_parts(bound, f"targets[0].maxReplicasQuery: {WORKER_KEY} ", "no_such_series")
    assert_parts(unanswered, "queries.there ", " away: ", away)
