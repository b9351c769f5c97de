"""`autoscaler resume --breaker` where there is nothing to release, or nobody to ask."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler import clock
from autoscaler.app import app
from autoscaler.cli import releasing
from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.persistence.store.rows import this_boot
from tests.adapters.store.opening import DATABASE, Sayings, Time, running


def released(directory: Path, *arguments: str, state: object = None) -> tuple[int, str]:
    """Run the command with a configuration whose state is in a directory, or what is given."""
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


def test_where_there_is_no_state_to_read_it_says_why(tmp_path: Path) -> None:
    """The daemon runs elsewhere, has another configuration or keeps nothing; a file is damaged."""
    directory = tmp_path / "state"
    code, said = released(directory)
    assert (code, "DIR" in said, "-c FILE" in said) == (1, True, True)
    directory.mkdir()
    (directory / DATABASE).write_text("no database\n" * 1000)
    code, said = released(directory)
    assert (code, said.startswith("DIR/autoscaler.db cannot be read: ")) == (1, True)
    code, said = released(directory, state="null")
    assert code == 1
    assert "`stateDirectory` is null" in said
    code, said = released(directory, state=3)
    assert (code, "stateDirectory: must be a text" in said) == (2, True)


def test_where_nothing_is_held_it_says_so(tmp_path: Path) -> None:
    """That is no failure."""
    with running(tmp_path / "state", Sayings()) as (store, _):
        store.keep_breakers({"": BreakerState(None, clock.wall() + 600)})
    assert released(tmp_path / "state")[0] == 0
    assert released(tmp_path / "state", "--server", "mimir")[0] == 0


def test_a_server_that_is_not_held_is_refused_and_those_that_are_are_named(state: Path) -> None:
    """A slip of the pen releases nothing."""
    code, said = released(state, "--server", "b")
    assert code == 1
    assert said.startswith("nothing of the server b is held; held are targets of: mimir (until")
    assert "past" not in said
    assert not (state / "autoscaler.release").exists()


@pytest.mark.parametrize(("server", "hint"), [("memir", "mimir?"), ("xy", "default, mimir, b")])
def test_a_server_that_does_not_exist_is_told(state: Path, server: str, hint: str) -> None:
    """It is not one of which nothing is held."""
    code, error = released(state, "--server", server)
    assert (code, server in error, error.endswith(hint)) == (2, True, True)
    assert not (state / "autoscaler.release").exists()


def test_a_request_to_nobody_is_withdrawn(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next daemon must not find it."""
    monkeypatch.setattr(releasing, "_ANSWERED_WITHIN_SECONDS", 0.2)
    code, said = released(state)
    silent = "no daemon that keeps its state in DIR has answered for 0.2 s; does it run?"
    assert (code, said) == (1, f"nothing was released: {silent}")
    assert not (state / "autoscaler.release").exists()
