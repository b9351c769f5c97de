"""`plan`: its notes, exit codes and queries, and the source of each query."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.cli import planning
from autoscaler.cli.asked_queries import queries_of
from autoscaler.cli.planning import _Notes, print_plan, query_sources
from autoscaler.cli.validating import validate_files
from autoscaler.config import load
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.core.observation import Scale
from autoscaler.core.target import QueryKey
from autoscaler.kubernetes.rights import HPAS, MissingRight
from autoscaler.persistence.store.rows import this_boot
from autoscaler.rendering.record import QuerySource
from autoscaler.sync.ports import Ports, Reporter
from tests.adapters.store.opening import Sayings, Time, running
from tests.cli.test_asking import TARGET
from tests.cli.test_asking import external as written_external
from tests.cli.test_commands import queue_config, ran
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.daemon import external, write_config
from tests.worlds.daemon import target as queue_target
from tests.worlds.memory import Memory, answer
from tests.worlds.process import free_port
from tests.worlds.prometheus import faults

HPA = 'HorizontalPodAutoscaler "web"'


def test_a_wait_has_one_note_of_each_server(capsys: pytest.CaptureFixture[str]) -> None:
    notes = _Notes()
    for failure in ("p refused", "p again", "p again"):
        notes.prometheus_retry("", failure)
    notes.kubernetes_retry("k refused")
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("note: p refused")
    assert second.startswith("note: k refused")


@pytest.fixture
def away(tmp_path: Path) -> tuple[str, str]:
    """Give an API server that is away, and a kubeconfig that names it."""
    server, path = f"http://127.0.0.1:{free_port()}", tmp_path / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(kubeconfig({"server": server}, {"token": "s3cret"}))
    return server, str(path)


def test_a_wait_for_the_api_server_is_a_note(tmp_path: Path, away: tuple[str, str]) -> None:
    server, path = away
    with faults.ScriptedServer(faults.answer()) as prometheus:
        file = write_config(tmp_path / "a.yaml", queue_config(prometheus.url, "shop", "a", "b"))
        code, out, err = ran(
            *("plan", "-c", str(file), "-o", "json"), environment={"KUBECONFIG": path}
        )
    assert code == 1
    history, wait = err.splitlines()
    assert history.startswith("note: ")
    assert server not in history
    first, second = (target["scale"]["error"] for target in json.loads(out))
    assert first == second
    assert server in first
    assert wait.startswith(f"note: {first}")


def test_absent_servers_are_given_up_after_a_second(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    away: tuple[str, str],
) -> None:
    server, path = away
    monkeypatch.setenv("KUBECONFIG", path)
    names = [f"w{number}" for number in range(40)]
    url = "http://nowhere.invalid:9090"
    file = write_config(tmp_path / "a.yaml", queue_config(url, "shop", *names))
    began = clock.monotonic()
    assert print_plan(file) == 1
    assert validate_files([file], ask_prometheus=True) == 1
    assert clock.monotonic() - began < 6
    out, err = capsys.readouterr()
    assert server in out
    assert "nowhere.invalid" in err


def test_without_an_answer_of_the_named_daemon_there_is_no_plan(tmp_path: Path) -> None:
    file = write_config(tmp_path / "a.yaml", queue_config("http://127.0.0.1:1", "shop", "a"))
    nobody = f"http://127.0.0.1:{free_port()}"
    code, out, err = ran("plan", "-c", str(file), "--url", nobody)
    assert (code, out) == (1, "")
    assert nobody in err


class NobodyElse:
    """No other autoscaler controls anything."""

    forbidden: Sequence[str] = ()

    def controller(self, *_: object) -> None:
        """Return None."""

    def hpa(self, *_: object) -> None:
        """Return None."""


LACKED: list[MissingRight] = []
"""The rights that a plan finds missing."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Have plans read from memory."""
    world = Memory(
        answers={"vector(5)": answer(5.0), "vector(6)": answer(6.0)},
        scales={f"shop/{name}": Scale(7, 7, f"app={name}") for name in ("a", "b")},
    )

    @contextmanager
    def ports(
        _config: object, _targets: object, reporter: Reporter, _observer: object
    ) -> Iterator[tuple[Ports, dict[str, NobodyElse], Callable[[], list[MissingRight]]]]:
        world.planned = True
        ports = replace(world.world(), reporter=reporter)
        yield ports, {"": NobodyElse()}, lambda: list(LACKED)

    monkeypatch.setattr(planning, "ports_to_plan", ports)
    return world


def two_queues(folder: Path, **settings: object) -> Path:
    """Write a configuration of the targets a and b, each with a query of its own."""
    targets = []
    for name, query in (("a", "vector(5)"), ("b", "vector(6)")):
        metric = external("queue_messages", "30")
        metric["external"]["metric"]["query"] = query
        behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
        targets.append(queue_target("shop", name, metric, maxReplicas=20, behavior=behavior))
    document = {"prometheus": {"url": "http://p:9090"}, "targets": targets, "listen": None}
    state = {"stateDirectory": str(folder / "state")}
    return write_config(folder / "a.yaml", document | state | settings)


def test_a_plan_holds_the_current_count_for_a_window(
    world: Memory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = two_queues(tmp_path)
    file.write_text(file.read_text().replace("Seconds: 0", "Seconds: 300"))
    assert print_plan(file, ("shop/b",), as_json=True) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert (plan["currentReplicas"], plan["desiredReplicas"], plan["rescale"]) == (7, 7, False)
    assert "ScaleDownStabilized" in [condition["reason"] for condition in plan["conditions"]]
    assert world.written == []


@pytest.mark.parametrize(
    ("prevents_writes", "shadow"), [(True, False), (True, True), (False, False)]
)
def test_a_plan_fails_if_the_daemon_could_not_write(
    world: Memory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prevents_writes: bool,
    shadow: bool,
) -> None:
    monkeypatch.setitem(globals(), "LACKED", [MissingRight("no", "x", prevents_writes)])
    file = two_queues(tmp_path)
    if shadow:
        file.write_text(file.read_text().replace("maxReplicas:", "mode: shadow\n  maxReplicas:"))
    assert print_plan(file) == int(prevents_writes and not shadow)
    assert world.written == []


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("named", [True, False])
def test_a_list_of_hpas_that_is_forbidden_has_one_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], named: bool
) -> None:
    lacked = [MissingRight("no right", HPAS, prevents_writes=False)]
    monkeypatch.setitem(globals(), "LACKED", lacked if named else [])
    monkeypatch.setattr(NobodyElse, "forbidden", ("no list",))
    assert print_plan(two_queues(tmp_path)) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert notes == ["note: no right" if named else "note: no list"]


def test_a_plan_sends_only_the_queries_of_its_targets(world: Memory, tmp_path: Path) -> None:
    assert print_plan(two_queues(tmp_path), ("shop/b",)) == 0
    assert world.queried == ["vector(6)"]


@pytest.mark.parametrize("how", ["text", "explain", "as_json"])
def test_a_plan_names_the_metric_that_has_no_series(
    world: Memory, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    file = two_queues(tmp_path)
    file.write_text(file.read_text().replace("vector(6)", "sum(redy)"))
    last_sample = "topk(1, max by (job, instance) (max_over_time(timestamp(redy)[6h:1m])))"
    world.answers |= dict.fromkeys(("sum(redy)", "count(redy)", last_sample), answer())
    assert print_plan(file, explain=how == "explain", as_json=how == "as_json") == 1
    out = capsys.readouterr().out
    if how == "as_json":
        a, b = json.loads(out)
        assert "noSeries" not in a
        (finding,) = b["noSeries"]
        assert finding.endswith(" redy")
    else:
        before, _, after = out.partition("shop/Deployment/b")
        assert "redy" not in before
        assert re.search(r"^  [^:]* redy$", after, re.MULTILINE)
    assert world.queried.count("vector(5)") == world.queried.count("count(redy)") == 1


def test_a_plan_heeds_a_breaker_only_while_it_holds(
    world: Memory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    breaker = {"share": "20%", "minTargets": 2, "hold": "10m"}
    file = two_queues(tmp_path, scaleDownBreaker=breaker)

    def planned(**trips: float) -> tuple[int, bool]:
        """Return the count of b and whether it changes, while breakers hold for some seconds."""
        now = clock.wall()
        with running(tmp_path / "state", Sayings(), Time(now, clock.steady(), this_boot())) as (
            store,
            _,
        ):
            store.keep_breakers(
                {
                    name.replace("default", ""): BreakerState(Trip(now - 600, now + left, 2, 2))
                    for name, left in trips.items()
                }
            )
        print_plan(file, ("shop/b",), as_json=True)
        (plan,) = json.loads(capsys.readouterr().out)
        return plan["desiredReplicas"], plan["rescale"]

    assert planned(default=-1.0, mimir=500.0) == (1, True)
    assert planned(default=500.0) == (7, False)
    assert world.written == []
    two_queues(tmp_path, scaleDownBreaker=breaker | {"minTargets": 3})
    assert planned(default=500.0) == (1, True)


# -- where the queries come from -------------------------------------------------------------------


CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
MEMORY = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}


def target(name: str, *metrics: object) -> dict[str, object]:
    """Return a target; without metrics it leaves them out."""
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return TARGET | {"scaleTargetRef": ref} | ({"metrics": list(metrics)} if metrics else {})


def test_each_query_is_named_by_its_place(tmp_path: Path) -> None:
    metrics = (
        written_external("b"),
        written_external("waiting", "sum(waiting)"),
        {"type": "Resource", "resource": CPU},
        {"type": "Resource", "resource": MEMORY},
    )
    mimir = {"url": "http://m", "resourceQueries": {"memory": "used"}}
    document = {
        "prometheus": {"url": "http://p:9090", "servers": {"mimir": mimir}},
        "queries": {"a": "vector(1)", "b": "vector(1)"},
        "resourceQueries": {"memory": "sum by (pod) (used)"},
        "targets": [
            target("first", *metrics),
            target("second", *metrics) | {"server": "mimir"},
            target("third"),
        ],
    }
    cpu = f"the built-in query of {CPU['name']}"
    named = tuple(map(QuerySource, ("queries.b", "its own query", cpu)))
    of_mimir = "prometheus.servers.mimir.resourceQueries.memory"
    assert query_sources(load(write_config(tmp_path / "a.yaml", document))) == {
        "shop/Deployment/first": (*named, QuerySource("resourceQueries.memory")),
        "shop/Deployment/second": (*named, QuerySource(of_mimir)),
        "shop/Deployment/third": (QuerySource(cpu, default=True),),
    }


def test_an_own_query_has_no_name_that_another_of_the_same_promql_has(tmp_path: Path) -> None:
    own = written_external("mine", {"query": "sum(w)", "server": "b"})
    same = written_external("same", "sum(v)")
    servers = {"a": {"url": "http://a"}, "b": {"url": "http://b"}}
    document = {
        "prometheus": {"url": "http://p:9090", "servers": servers},
        "queries": {"waiting": {"query": "sum(w)", "server": "a"}, "other": "sum(v)"},
        "targets": [target("first", own, written_external("waiting"), same)],
    }
    config = load(write_config(tmp_path / "a.yaml", document))
    (sources,) = query_sources(config).values()
    assert [source.name for source in sources] == [
        "its own query",
        "queries.waiting",
        "its own query",
    ]
    places = {text.key: text.place.path for text in queries_of(config)}
    assert places[QueryKey("a", "sum(w)")] == "queries.waiting"
    assert places[QueryKey("b", "sum(w)")] == "targets[0].metrics[0].external.metric.query"
