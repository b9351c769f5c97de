"""What a target in shadow would have come to, had its own decisions been written (8.11)."""

from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.agreement.comparison import HpaComparison, compared
from autoscaler.agreement.free_run import FreeRun, Left, free_run
from autoscaler.core.extensions import Extensions, Mode, Pause
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.persistence.codec import dumps, loads
from tests.core.builders import (
    average,
    behavior,
    cpu,
    external,
    percent_policy,
    pods_policy,
    rules,
    spec,
    utilization,
)
from tests.core.timeline import Timeline

QUEUE = external(average("10"))
QUICK = behavior(
    up=rules(percent_policy(1000, 15), window=0), down=rules(percent_policy(100, 15), window=0)
)
PLAIN = spec(QUEUE, maximum=100, behavior=QUICK)
BY_TWO = behavior(up=rules(pods_policy(2, 60), window=0))


class Shadow:
    """A target in shadow whose count others set, and its free run."""

    def __init__(
        self, of: HorizontalPodAutoscalerSpec, replicas: int = 3, pause: Pause | None = None
    ) -> None:
        extensions = Extensions(mode=Mode.SHADOW, pause=pause)
        self.line = Timeline(of, replicas=replicas, extensions=extensions)
        self.free: FreeRun | None = None
        self.left: Left | None = None

    def set(self, replicas: int) -> Self:
        """Let the other one set the count."""
        self.line.by_hand(replicas, "kube-controller-manager")
        return self

    def at(self, second: float, queue: float | None) -> Self:
        """Sync, with so many messages."""
        self.line.at(f"{second}s", queue=queue)
        result = self.line.result
        self.free = free_run(self.free, self.left, result)
        decision = result.decision
        self.left = Left(decision.current or 0, decision.desired, decision.stamp)
        return self

    @property
    def count(self) -> int:
        """What the free run has come to."""
        return self.line.replicas if self.free is None else self.free.count


def test_while_the_other_one_does_the_same_there_is_none() -> None:
    """Nothing is computed twice: each count is what was decided the sync before."""
    shadow = Shadow(PLAIN).at(0, 50)
    assert (shadow.free, shadow.line.decision.desired) == (None, 5)
    assert shadow.set(5).at(15, 50).free is None
    assert shadow.at(30, 50).free is None


def test_it_goes_where_the_other_one_does_not() -> None:
    """From the first difference on: by the load, whatever the object's count is."""
    shadow = Shadow(PLAIN).at(0, 50)
    for second, queue, count in ((15, 50, 5), (30, 80, 8), (45, 20, 2), (60, 90, 9)):
        assert shadow.at(second, queue).count == count
        assert shadow.line.replicas == 3


def test_it_ends_where_both_have_the_same_count() -> None:
    """And begins anew with the next difference."""
    shadow = Shadow(PLAIN).at(0, 50).at(15, 50)
    assert shadow.free is not None
    assert shadow.at(30, 30).free is None
    assert shadow.at(45, 60).free is None
    assert shadow.at(60, 60).count == 6


def test_it_has_its_own_limits() -> None:
    """Two pods a minute from its own count, while the live one stands still."""
    shadow = Shadow(spec(QUEUE, maximum=100, behavior=BY_TWO))
    counts = [shadow.at(15.0 * sync, 200).count for sync in range(14)]
    assert counts == [3, 5, 5, 5, 7, 7, 7, 7, 9, 9, 9, 9, 11, 11]
    assert shadow.line.decision.desired == 5


def test_it_holds_its_own_recommendations() -> None:
    """It goes down only once the window of 300 s has passed, as it would have gone."""
    shadow = Shadow(spec(QUEUE, maximum=100)).at(0, 60).at(15, 60)
    assert shadow.count == 6
    held = [shadow.at(15.0 * sync, 10).count for sync in range(2, 21)]
    assert set(held) == {6}
    assert shadow.at(15.0 * 22, 10).count < 6


def test_a_load_of_pods_is_taken_as_a_number_of_pods() -> None:
    """Three pods at twice the target ask for six, and six of the free run ask for no more."""
    shadow = Shadow(spec(cpu(utilization(50)), maximum=100, behavior=QUICK))
    shadow.line.at("0s", cpu=100)
    shadow.left = Left(3, 6, shadow.line.decision.stamp)
    for sync in range(1, 4):
        shadow.line.at(f"{15 * sync}s", cpu=100)
        shadow.free = free_run(shadow.free, shadow.left, shadow.line.result)
        assert shadow.count == 6


@pytest.mark.parametrize("replicas", [0, 3])
def test_of_an_object_at_zero_nothing_is_measured(replicas: int) -> None:
    """It stays what it was, since no reading at zero says anything of another count."""
    shadow = Shadow(PLAIN).at(0, 50).at(15, 50)
    assert shadow.set(replicas).at(30, 80).count == (5 if replicas == 0 else 8)


def test_a_metric_that_fails_leaves_it_where_it_is() -> None:
    """As it would have left the target."""
    shadow = Shadow(PLAIN).at(0, 50).at(15, 50).at(30, None)
    assert shadow.count == 5
    assert shadow.at(45, 70).count == 7


def test_a_scale_that_cannot_be_read_leaves_it_where_it_is() -> None:
    """The next sync goes on with it."""
    shadow = Shadow(PLAIN).at(0, 50).at(15, 50)
    shadow.line.unreadable()
    shadow.at(30, 90)
    assert shadow.free is not None
    assert shadow.free.count == 5


def test_a_pause_holds_it_too() -> None:
    """What the target's configuration says is said of its free run."""
    shadow = Shadow(PLAIN, pause=Pause())
    assert shadow.at(0, 90).at(15, 90).free is None


def test_it_begins_anew_after_a_gap_and_with_each_process() -> None:
    """What would have been done meanwhile is not known: it has the object's count again."""
    shadow, state = Shadow(PLAIN), HpaComparison()
    for second, free in ((0, 3), (15, 5), (30, 5), (300, 3), (315, 9)):
        shadow.at(second, 50 if second < 300 else 90)
        state, _ = compared(state, shadow.line.result)
        assert state.free_count == free
    assert compared(HpaComparison(), shadow.line.result)[0].free_count == 3


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 30)), min_size=1, max_size=30))
def test_with_the_live_counts_it_is_never_outside_the_bounds(syncs: list[tuple[int, int]]) -> None:
    """Whatever the other one does; and it comes back whole from where it is kept."""
    shadow = Shadow(spec(QUEUE, minimum=2, maximum=20))
    for sync, (queue, replicas) in enumerate(syncs):
        shadow.set(replicas).at(15.0 * sync, queue)
        if shadow.free is not None:
            assert 2 <= shadow.free.count <= 20
            assert loads(FreeRun, dumps(shadow.free)) == shadow.free
