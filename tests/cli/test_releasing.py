"""`autoscaler resume --breaker` without something to release, or a daemon that answers."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler import clock
from autoscaler.app import app
from autoscaler.cli import releasing
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.persistence.store.rows import this_boot
from tests.adapters.store.opening import DATABASE, Sayings, Time, running
from tests.narrowing import assert_parts


def released(directory: Path, *arguments: str, state: object = None) -> tuple[int, str]:
    """Run the command with a configuration whose state is in a directory, or as given."""
    file = directory.with_name("autoscaler.yaml")
    file.write_text(
        "prometheus: {url: http://p:9090, servers: {mimir: {url: http://m}, b: {url: http://b}}}\n"
        f"stateDirectory: {state or directory}\ntargets: []\n"
    )
    done = CliRunner().invoke(app, ["resume", "--breaker", "-c", str(file), *arguments])
    return done.exit_code, done.output.replace(str(directory), "DIR").strip()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a state directory in which two servers are held; one of them was in the past."""
    now, directory = clock.wall(), tmp_path / "state"
    with running(directory, Sayings(), Time(now, clock.steady(), this_boot())) as (store, _):
        store.keep_breakers(
            {
                "mimir": BreakerState(Trip(now, now + 600, 9, 20, "up")),
                "past": BreakerState(Trip(now - 900, now - 300, 9, 20, "up")),
            }
        )
    return directory


@pytest.mark.parametrize(
    ("database", "state", "code", "parts"),
    [
        pytest.param(False, None, 1, ["DIR", "-c FILE"], id="daemon-elsewhere"),
        pytest.param(True, None, 1, ["DIR/autoscaler.db "], id="damaged-file"),
        pytest.param(True, "null", 1, ["`stateDirectory`"], id="no-state"),
        pytest.param(True, 3, 2, ["stateDirectory: "], id="mistaken-configuration"),
    ],
)
def test_a_release_fails_without_a_readable_state(
    tmp_path: Path, *, database: bool, state: object, code: int, parts: list[str]
) -> None:
    if database:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / DATABASE).write_text("no database\n" * 1000)
    failed, error = released(tmp_path / "state", state=state)
    assert failed == code
    assert_parts(error, *parts)


def test_a_release_of_nothing_is_a_success(tmp_path: Path) -> None:
    with running(tmp_path / "state", Sayings()) as (store, _):
        store.keep_breakers({"": BreakerState(None, clock.wall() + 600)})
    assert released(tmp_path / "state")[0] == 0
    assert released(tmp_path / "state", "--server", "mimir")[0] == 0


@pytest.mark.parametrize(
    ("server", "code", "hint"),
    [
        pytest.param("b", 1, "mimir (until ", id="not-held"),
        pytest.param("memir", 2, "mimir?", id="misspelt"),
        pytest.param("xy", 2, "default, mimir, b", id="unknown"),
    ],
)
def test_another_server_than_the_held_one_is_refused(
    state: Path, server: str, code: int, hint: str
) -> None:
    failed, error = released(state, "--server", server)
    assert failed == code
    assert_parts(error, server, hint)
    assert "past" not in error
    assert not (state / "autoscaler.release").exists()


def test_a_request_without_an_answer_is_withdrawn(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next daemon must not find it."""
    monkeypatch.setattr(releasing, "_ANSWERED_WITHIN_SECONDS", 0.2)
    code, error = released(state)
    assert code == 1
    assert_parts(error, "DIR", "0.2 s")
    assert not (state / "autoscaler.release").exists()
