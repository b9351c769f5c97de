"""A restart at any step changes no decision: all that a target carries is in its history."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.codec import dumps, loads
from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.extensions import Extensions
from autoscaler.core.history import History
from autoscaler.core.observation import Observation, Scale
from autoscaler.core.spec import Flags, HorizontalPodAutoscalerSpec
from autoscaler.core.writes import intend, settle, settle_failure
from tests.adapters.store.opening import same
from tests.core import strategies
from tests.core.builders import BASE

ANNOTATIONS = (
    (),
    (),
    (("autoscaler/paused", "true"),),
    (("autoscaler/paused", "scale-down"),),
    (("autoscaler/paused-replicas", "7"),),
)


def observed(
    data: st.DataObject, of: HorizontalPodAutoscalerSpec, extensions: Extensions, replicas: int
) -> Observation:
    """Draw what is read where the target has that count."""
    drawn = data.draw(strategies.usual_observations(of, strategies.no_gaps | strategies.some_gaps))
    assert isinstance(drawn.scale, Scale)
    annotations = data.draw(st.sampled_from(ANNOTATIONS))
    status = max(replicas + drawn.scale.status_replicas - drawn.scale.spec_replicas, 0)
    scale = replace(
        drawn.scale, spec_replicas=replicas, status_replicas=status, annotations=annotations
    )
    return replace(
        drawn,
        scale=scale,
        windows=data.draw(strategies.open_windows(extensions)),
        min_replicas_reading=data.draw(strategies.bound_readings),
        max_replicas_reading=data.draw(strategies.bound_readings),
        ranges=tuple(data.draw(st.sampled_from((0.0, 30.0))) for _ in of.metrics),
    )


class Life:
    """A target that lives through the same syncs, with restarts or without."""

    def __init__(
        self, of: HorizontalPodAutoscalerSpec, extensions: Extensions, *, restarts: bool
    ) -> None:
        self.history = History()
        self._of = of
        self._extensions = extensions
        self._restarts = restarts

    def sync(self, seen: Observation, now: float, *, write_fails: bool) -> Decision:
        """Decide, and write; there may be a restart before, and one just before the write."""
        before = self.history = self._resumed(self.history)
        decision, history = decide(
            self._of, Flags(), seen, before, now, extensions=self._extensions
        )
        if decision.rescale:
            history = self._resumed(replace(intend(decision, history), pending=None))
            if write_fails:
                decision, history = settle_failure(decision, history, before, "refused")
            else:
                decision, history = settle(self._of, decision, history)
        self.history = history
        return decision

    def _resumed(self, history: History) -> History:
        return loads(History, dumps(history)) if self._restarts else history


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_restart_at_every_step_changes_nothing(data: st.DataObject) -> None:
    """With every extension, any readings, pauses and counts set by hand: every record is equal."""
    of, extensions = data.draw(strategies.specs()), data.draw(strategies.extensions)
    whole, restarted = (Life(of, extensions, restarts=one) for one in (False, True))
    now, replicas = BASE, data.draw(st.integers(0, 12))
    for _ in range(data.draw(st.integers(2, 8))):
        now += data.draw(st.sampled_from((15.0, 15.0, 61.0, 400.0)))
        seen = observed(data, of, extensions, replicas)
        write_fails = data.draw(st.integers(0, 5)) == 0
        decision = whole.sync(seen, now, write_fails=write_fails)
        assert restarted.sync(seen, now, write_fails=write_fails) == decision
        assert same(restarted.history, whole.history)
        by_hand = data.draw(st.integers(0, 12)) if data.draw(st.integers(0, 9)) == 0 else None
        replicas = decision.desired if by_hand is None else by_hand
