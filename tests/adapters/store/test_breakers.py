"""The states of the scale-down breakers survive a restart and move with the clock."""

from pathlib import Path

import pytest

from autoscaler.core.breaker import BreakerState, Trip
from autoscaler.core.history import shifted
from autoscaler.persistence.store import Resumption, read_saved, releases
from autoscaler.persistence.store.releases import Release
from tests.adapters.store.histories import nth
from tests.adapters.store.opening import T0, Sayings, Time, running
from tests.narrowing import instance

TRIP = Trip(T0, T0 + 600, 380, 500, 'sum by (queue) (ready{job="mq"})', again=2)
INVALID_REQUESTS = (b"", b"[]", b'{"server": 3}', b"{}", b"\xff", b"[" * 4000)
STATES = {"": BreakerState(TRIP), "mimir": BreakerState(None, T0 + 300)}


def breakers_in(directory: Path, time: Time | None = None) -> dict[str, BreakerState]:
    """Return the states with which a daemon would start at a time."""
    with running(directory, Sayings(), time) as (_, resumption):
        return dict(resumption.breakers)


def test_breaker_states_survive_a_restart(tmp_path: Path) -> None:
    with running(tmp_path, Sayings()) as (store, _):
        store.keep_breakers(STATES)
    assert breakers_in(tmp_path) == STATES
    assert instance(Resumption, read_saved(tmp_path, Time().clocks)).breakers == STATES


def test_later_breaker_states_replace_all_earlier_ones(tmp_path: Path) -> None:
    with running(tmp_path, Sayings()) as (store, _):
        store.keep_breakers(STATES)
        store.keep_breakers({"mimir": STATES["mimir"]})
    with running(tmp_path, Sayings()) as (store, _):
        store.keep([("shop/Deployment/web", nth(7), T0)])
    assert breakers_in(tmp_path) == {"mimir": STATES["mimir"]}
    with running(tmp_path, Sayings()) as (store, _):
        store.keep_breakers({})
    assert breakers_in(tmp_path) == {}


@pytest.mark.parametrize("when", ["same-batch", "next-batch", "stopped"])
def test_breaker_states_move_with_a_clock_that_is_set(tmp_path: Path, when: str) -> None:
    time = Time()
    with running(tmp_path, Sayings(), time) as (store, _):
        store.keep_breakers(STATES)
        if when == "next-batch":
            store.intend("shop/Deployment/web", nth(7)).result(10)
        time.pass_(60.0)
        time.wall -= 3600
        if when != "stopped":
            store.shift(-3600.0)
    moved = {name: shifted(value, -3600.0) for name, value in STATES.items()}
    assert breakers_in(tmp_path, time) == moved


def test_a_request_is_taken_once(tmp_path: Path) -> None:
    assert releases.take(tmp_path) is None
    for request in (Release("mimir"), Release(""), Release(None)):
        releases.ask(tmp_path, Release("an earlier one"))
        releases.ask(tmp_path, request)
        assert (tmp_path / "autoscaler.release").stat().st_mode & 0o777 == 0o644
        assert releases.is_waiting(tmp_path)
        assert releases.take(tmp_path) == request
        assert not releases.is_waiting(tmp_path)
        assert releases.take(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "error"),
    [
        *((content, ValueError) for content in INVALID_REQUESTS),
        # Nesting that is deeper than any parser allows does not reach the parser.
        *((b"[" * size, OSError) for size in (4097, 100_000)),
    ],
)
def test_an_invalid_request_is_refused_once_and_removed(
    tmp_path: Path, content: bytes, error: type[Exception]
) -> None:
    (tmp_path / "autoscaler.release").write_bytes(content)
    with pytest.raises(error) as refusal:
        releases.take(tmp_path)
    assert type(refusal.value) is error or error is OSError
    assert releases.take(tmp_path) is None
