"""What `plan` says while it waits, and of who else controls a target."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.cli.planning import _once, controller_of
from autoscaler.core.history import History
from autoscaler.core.observation import Scale, Unchecked
from autoscaler.rendering.record import whole
from tests.adapters.prometheus import faults
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
