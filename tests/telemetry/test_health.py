"""Liveness and readiness of the daemon, as its parts report them and a probe reads them."""

from dataclasses import dataclass

import pytest

from autoscaler.rendering.answers import ComponentState
from autoscaler.telemetry.health import REQUIRED, Component, Health, part_of
from tests.narrowing import assert_parts, known


@dataclass
class Times:
    """Both clocks, in the test's hands."""

    seconds: float = 1000.0
    wall_offset: float = 1_800_000_000.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return self.seconds + self.wall_offset


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def health(times: Times) -> Health:
    """Return a health that lives by the test's clocks."""
    return Health(times.monotonic, times.wall)


def component_of(health: Health, name: str) -> ComponentState:
    """Return the state of one component."""
    return next(state for state in health.components() if state.name == name)


def make_well(health: Health) -> None:
    """Let everything that is required be well."""
    for name in REQUIRED:
        health.report(name, ok=True, message="well")


def test_syncs_that_take_longer_than_three_periods_hang(times: Times, health: Health) -> None:
    health.expect({"15+0": 15.0, "15+1": 15.0, "60+0": 60.0})
    times.seconds += 45.0
    assert health.stalled() is None
    times.seconds += 0.5
    assert_parts(health.stalled(), "15 s", "46 s", "1 others")
    health.sync_completed("15+0")
    assert_parts(health.stalled(), "15 s", "46 s")
    assert "others" not in known(health.stalled())
    health.sync_completed("15+1")
    assert health.stalled() is None


def test_a_reload_forgets_removed_syncs_and_gives_new_ones_their_time(
    times: Times, health: Health
) -> None:
    health.expect({"15+0": 15.0, "15+1": 15.0})
    times.seconds += 40.0
    health.expect({"15+1": 15.0, "5+0": 5.0})
    health.sync_completed("15+0")
    assert health.stalled() is None
    times.seconds += 10.0
    health.sync_completed("5+0")
    assert_parts(health.stalled(), "15 s", "50 s")


def test_the_time_of_a_reload_does_not_count(times: Times, health: Health) -> None:
    health.expect({"15+0": 15.0, "5+0": 5.0})
    times.seconds += 14.0
    with health.suspended():
        times.seconds += 40.0
        assert health.stalled() is None
    assert health.stalled() is None
    health.sync_completed("5+0")
    for _ in range(6):
        times.seconds += 5.0
        with health.suspended():
            health.sync_completed("5+0")
    assert health.stalled() is None
    times.seconds += 1.5
    assert_parts(health.stalled(), "15 s", "46 s")


def test_a_daemon_that_starts_is_live_and_not_ready(health: Health) -> None:
    assert health.stalled() is None
    assert not health.ready
    assert [(state.name, state.ok) for state in health.components()] == [
        (name, False) for name in REQUIRED
    ]


def test_only_required_components_decide_on_readiness(health: Health) -> None:
    for name in REQUIRED:
        assert not health.ready
        health.report(name, ok=True, message="well")
    assert health.ready
    for name in set(Component) - set(REQUIRED):
        health.report(name, ok=False, message="broken")
    assert health.ready
    assert [component.name for component in health.components()] == list(Component)
    health.report(Component.CACHES, ok=False, message="listing")
    assert not health.ready


def test_the_time_of_a_state_is_that_of_its_last_change(times: Times, health: Health) -> None:
    begun = times.wall()
    for ok, message, since in ((False, "full", 0.0), (False, "gone", 0.0), (True, "kept", 10.0)):
        health.report(Component.STATE, ok=ok, message=message)
        state = component_of(health, Component.STATE)
        assert (state.ok, state.message, state.since) == (ok, message, begun + since)
        times.seconds += 5.0


def test_a_server_is_down_once_it_has_not_answered_for_a_minute(
    times: Times, health: Health
) -> None:
    """One failure among others says nothing, and an answer ends an outage at once."""
    away, steps = "HTTP 503", list[tuple[float, str | None, bool]]()
    steps += [(0.0, "silent", False), (0.0, None, True), (59.0, away, True), (1.0, away, False)]
    for seconds, problem, ok in [*steps, (0.0, None, True)]:
        times.seconds += seconds
        health.request_ended(Component.PROMETHEUS, problem)
        state = component_of(health, Component.PROMETHEUS)
        assert (state.ok, state.message) == (ok, problem if not ok else "answers")


def test_each_server_that_a_target_queries_is_a_component(health: Health) -> None:
    make_well(health)
    health.expect_servers({"", "thanos", "mimir"})

    def servers() -> dict[str, bool]:
        components = health.components()
        return {state.name: state.ok for state in components if "prom" in state.name}

    mimir, thanos = (part_of(Component.PROMETHEUS, name) for name in ("mimir", "thanos"))
    assert servers() == {"prometheus": True, mimir: False, thanos: False}
    unheard = component_of(health, mimir).message
    assert health.request_ended(mimir, "silent") == 0.0
    health.request_ended(thanos)
    assert component_of(health, mimir).message == "silent"
    assert servers() == {"prometheus": True, mimir: False, thanos: True}
    assert health.ready
    health.expect_servers({""})
    assert health.request_ended(mimir, "silent") is None
    assert list(servers()) == ["prometheus"]
    health.expect_servers({"", "mimir"})
    assert component_of(health, mimir).message == unheard


def test_the_default_server_is_not_required_if_no_target_queries_it(health: Health) -> None:
    make_well(health)
    health.report(Component.PROMETHEUS, ok=False, message="silent")
    ready = [health.ready]
    health.expect_servers({"mimir"})
    ready.append(health.ready)
    health.expect_servers({"", "mimir"})
    health.request_ended(Component.PROMETHEUS, "silent")
    ready.append(health.ready)
    assert ready == [False, True, False]
