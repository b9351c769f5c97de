"""What `plan` says while it waits, and of who else controls a target."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.adapters.store.clocks import this_boot
from autoscaler.cli import planning
from autoscaler.cli.planning import PlanOptions, _once, controller_of, print_plan
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.core.history import History
from autoscaler.core.observation import Scale, Unchecked
from autoscaler.rendering.record import whole
from autoscaler.sync.ports import NoWrites, Ports, Reporter
from tests.adapters.prometheus import faults
from tests.adapters.store.opening import Sayings, Time, running
from tests.cli.test_commands import autoscaler, queue_config
from tests.controlplane.credentials import kubeconfig
from tests.controlplane.process import free_port
from tests.endtoend.daemon import write_config
from tests.sync.world import T0, Memory, answer, external

HPA = 'HorizontalPodAutoscaler "web"'


@pytest.mark.parametrize(
    ("seen", "known", "said"),
    [
        (None, HPA, ""),
        (HPA, "", HPA),
        (Unchecked("forbidden"), "", ""),
        (
            Unchecked("forbidden"),
            HPA,
            f"{HPA} (as last known; it cannot be checked now: forbidden)",
        ),
    ],
)
def test_who_controls_a_target_is_who_does_so_to_the_daemon(
    seen: str | Unchecked | None, known: str, said: str
) -> None:
    """Where it cannot be checked, the last known one."""
    assert controller_of(seen, History(controller=known)) == said


def test_the_record_has_who_controls_the_target() -> None:
    """Only where somebody does."""
    world = Memory(answers={"queue": answer(90.0)}, scales={"shop/a": Scale(2, 2, "app=a")})
    with world.syncer() as syncer:
        syncer.sync([external("shop", "a")], T0, 10.0)
    (result,) = world.results
    assert "controlledBy" not in whole(result)
    assert whole(replace(result, controller=HPA))["controlledBy"] == HPA


def test_a_wait_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a server, whatever fails after it and however often."""
    tell = _once()
    for failure in ("Prometheus at http://p refused the connection", "and again", "and again"):
        tell(failure)
    assert capsys.readouterr().err == (
        "note: Prometheus at http://p refused the connection; it is tried again\n"
    )


def test_a_server_that_is_away_is_waited_for_aloud(tmp_path: Path) -> None:
    """On standard error, after what the plan goes on with; standard output is a list of JSON."""
    server = f"http://127.0.0.1:{free_port()}"
    path = tmp_path / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(kubeconfig({"server": server}, {"token": "s3cret"}))
    away = f"the API server {server} cannot be reached: connection refused"
    with faults.ScriptedServer(faults.answer()) as prometheus:
        file = write_config(tmp_path / "a.yaml", queue_config(prometheus.url, "shop", "a", "b"))
        environment = {"KUBECONFIG": str(path)}
        ran = autoscaler("plan", "-c", str(file), "-o", "json", environment=environment)
    assert ran.returncode == 1
    first, *rest = ran.stderr.splitlines()
    assert first.startswith("note: decides as a daemon that has just started: no target goes down")
    assert rest == [f"note: {away}; it is tried again"]
    assert [one["scale"] for one in json.loads(ran.stdout)] == [{"error": away}] * 2


def test_a_daemon_that_is_named_must_answer(tmp_path: Path) -> None:
    """Else there is no plan; an address that is none is not repeated, since it may hold secrets."""
    file = write_config(tmp_path / "a.yaml", queue_config("http://127.0.0.1:1", "shop", "a"))
    nobody = f"http://127.0.0.1:{free_port()}"
    ran = autoscaler("plan", "-c", str(file), "--url", nobody)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"autoscaler cannot plan: no daemon listens at {nobody}\n"
    ran = autoscaler("plan", "-c", str(file), "--url", "http://user:s3cret@127.0.0.1:9191")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "must be an address such as http://127.0.0.1:9191" in ran.stderr
    assert "s3cret" not in ran.stderr


class NobodyElse:
    """No other autoscaler controls anything."""

    def controller(self, *_: object) -> None:
        """Return that."""


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
    ) -> Iterator[tuple[Ports, NobodyElse]]:
        yield replace(world.world(), reporter=reporter, writer=NoWrites()), NobodyElse()

    monkeypatch.setattr(planning, "ports_to_plan", ports)
    return world


def two_queues(folder: Path, **settings: object) -> Path:
    """Write a configuration of the targets a and b, each with a query of its own."""
    document = queue_config("http://p:9090", "shop", "a", "b")
    for target, query in zip(document["targets"], ("vector(5)", "vector(6)"), strict=True):  # type: ignore[call-overload] # it is a list
        target["metrics"] = copy.deepcopy(target["metrics"])
        target["metrics"][0]["external"]["metric"]["query"] = query
        target["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    del document["queries"]
    state = {"stateDirectory": str(folder / "state"), "listen": None}
    return write_config(folder / "a.yaml", document | state | settings)


def test_a_plan_asks_only_what_its_targets_use(world: Memory, tmp_path: Path) -> None:
    """Their neighbours of the namespace are read for their selectors alone."""
    assert print_plan(two_queues(tmp_path), PlanOptions(("shop/b",))) == 0
    assert world.queried == ["vector(6)"]


def test_a_plan_heeds_a_breaker_that_holds(
    world: Memory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the daemon has kept it; not one that is over, or of another server."""
    breaker = {"share": "20%", "minTargets": 2, "hold": "10m"}
    file = two_queues(tmp_path, scaleDownBreaker=breaker)

    def planned(**trips: float) -> str:
        """Plan b while breakers hold for so many seconds from now."""
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
        print_plan(file, PlanOptions(("shop/b",)))
        return capsys.readouterr().out

    assert "would scale 7 -> 1" in planned(default=-1.0, mimir=500.0)
    held = planned(default=500.0)
    assert "stays at 7 replicas, not 1: the scale-down breaker lets no target of" in held
    assert world.written == []
    two_queues(tmp_path, scaleDownBreaker=breaker | {"minTargets": 3})
    assert "would scale 7 -> 1" in planned(default=500.0)
