"""Whether the daemon lives and is ready, told by the parts and read by a probe."""

from dataclasses import dataclass

import pytest

from autoscaler.telemetry.health import REQUIRED, Component, Health, part_of


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


def test_it_lives_while_every_sync_ends_within_three_periods(times: Times, health: Health) -> None:
    """The end of the third period is still in time, a moment later one sync counts as hung."""
    health.expect({"15+0": 15.0, "15+1": 15.0, "60+0": 60.0})
    times.seconds += 45.0
    assert health.stalled() is None
    health.sync_completed("15+0")
    times.seconds += 0.5
    assert health.stalled() == "a sync that is due every 15 s has not ended for 46 s"
    health.sync_completed("15+1")
    assert health.stalled() is None


def test_one_sync_that_hangs_is_seen_beside_others_that_turn(times: Times, health: Health) -> None:
    """The others of the same period do not hide it, and two are told of as two."""
    health.expect({"15+0": 15.0, "15+1": 15.0, "15+2": 15.0})
    for _ in range(4):
        times.seconds += 15.0
        health.sync_completed("15+2")
    assert health.stalled() == (
        "a sync that is due every 15 s has not ended for 60 s, nor did 1 others in time"
    )


def test_a_reload_forgets_syncs_that_are_gone_and_gives_new_ones_their_time(
    times: Times, health: Health
) -> None:
    """What went on keeps its age; a late word of a sync that is gone changes nothing."""
    health.expect({"15+0": 15.0, "15+1": 15.0})
    times.seconds += 40.0
    health.expect({"15+1": 15.0, "5+0": 5.0})
    health.sync_completed("15+0")
    assert health.stalled() is None
    times.seconds += 10.0
    health.sync_completed("5+0")
    assert health.stalled() == "a sync that is due every 15 s has not ended for 50 s"


def test_the_time_of_a_reload_is_left_out(times: Times, health: Health) -> None:
    """Syncs that wait for each other do not hang, and one that hung before it hangs on after it."""
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
    assert health.stalled() == "a sync that is due every 15 s has not ended for 46 s"


def test_before_anything_is_expected_it_lives_and_is_not_ready(health: Health) -> None:
    """A daemon that starts is not killed for it, and nobody relies on it yet."""
    assert health.stalled() is None
    assert not health.ready
    assert [
        (component.name, component.ok, component.message) for component in health.components()
    ] == [(name, False, "not heard of yet") for name in REQUIRED]


def test_it_is_ready_when_all_that_is_required_is_well(health: Health) -> None:
    """What only informs may be broken: the state, a reload, the lead of another process."""
    for name in REQUIRED:
        assert not health.ready
        health.report(name, ok=True, message="well")
    assert health.ready
    for name in set(Component) - set(REQUIRED):
        health.report(name, ok=False, message="broken")
    assert health.ready
    assert [component.name for component in health.components()] == list(Component)
    health.report(Component.CACHES, ok=False, message="the pods are listed anew")
    assert not health.ready


def test_since_is_when_it_became_so_and_not_when_it_was_last_told(
    times: Times, health: Health
) -> None:
    """Another message of the same state keeps the time, a change of state moves it."""
    health.report(Component.STATE, ok=False, message="the disk is full")
    begun = times.wall()
    times.seconds += 5.0
    health.report(Component.STATE, ok=False, message="the file is gone")
    (state,) = [component for component in health.components() if component.name == Component.STATE]
    assert (state.message, state.since) == ("the file is gone", begun)
    health.report(Component.STATE, ok=True, message="kept")
    (state,) = [component for component in health.components() if component.name == Component.STATE]
    assert (state.ok, state.since) == (True, begun + 5.0)


def test_one_failing_request_among_others_is_no_problem_of_the_server(
    times: Times, health: Health
) -> None:
    """A failure counts once nothing was answered for a minute, and an answer ends it at once."""

    def prometheus() -> tuple[bool, str]:
        return next(
            (component.ok, component.message)
            for component in health.components()
            if component.name == Component.PROMETHEUS
        )

    health.request_ended(Component.PROMETHEUS, "does not answer")
    assert prometheus() == (False, "does not answer")
    health.request_ended(Component.PROMETHEUS)
    assert prometheus() == (True, "answers")
    times.seconds += 59.0
    health.request_ended(Component.PROMETHEUS, "answers only HTTP 503")
    assert prometheus() == (True, "answers")
    times.seconds += 1.0
    health.request_ended(Component.PROMETHEUS, "answers only HTTP 503")
    assert prometheus() == (False, "answers only HTTP 503")
    health.request_ended(Component.PROMETHEUS)
    assert prometheus() == (True, "answers")


def test_each_server_that_a_target_asks_is_a_component_of_its_own(health: Health) -> None:
    """One that is away leaves the daemon ready; one that nobody asks any more is forgotten."""
    for name in REQUIRED:
        health.report(name, ok=True, message="well")
    health.expect_servers({"", "thanos", "mimir"})

    def servers() -> dict[str, tuple[bool, str]]:
        components = health.components()
        return {
            str(component.name): (component.ok, component.message)
            for component in components
            if "prom" in component.name
        }

    new = (False, "not heard of yet")
    assert servers() == {
        "prometheus": (True, "well"),
        "prometheus/mimir": new,
        "prometheus/thanos": new,
    }
    mimir = part_of(Component.PROMETHEUS, "mimir")
    assert health.request_ended(mimir, "does not answer") == 0.0
    health.request_ended(part_of(Component.PROMETHEUS, "thanos"))
    assert servers()[mimir] == (False, "does not answer")
    assert servers()["prometheus/thanos"] == (True, "answers")
    assert health.ready
    health.expect_servers({""})
    assert health.request_ended(mimir, "does not answer") is None
    assert list(servers()) == ["prometheus"]
    health.expect_servers({"", "mimir"})
    assert servers()[mimir] == new


def test_the_default_server_is_no_obstacle_where_no_target_asks_it(health: Health) -> None:
    """All that is asked is elsewhere; once it is asked, it counts again."""
    for name in REQUIRED:
        if name is not Component.PROMETHEUS:
            health.report(name, ok=True, message="well")
    ready = [health.ready]
    health.expect_servers({"mimir"})
    ready.append(health.ready)
    health.expect_servers({"", "mimir"})
    health.request_ended(Component.PROMETHEUS, "does not answer")
    ready.append(health.ready)
    assert ready == [False, True, False]
