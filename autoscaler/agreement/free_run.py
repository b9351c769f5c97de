"""What a target in shadow would have come to, had its own decisions been written (semantics 8.11).

While its count is that of the object there is nothing to keep.  From the first difference on it is
decided a second time, of its own count with its own recommendations and scale events; the load is
the same, as a number of pods that it asks for.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from autoscaler.core.decide import decide
from autoscaler.core.history import History
from autoscaler.core.load_in_pods import in_pods, live, pods_of
from autoscaler.core.observation import Scale
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.writes import applied, intend, settle


class Left(NamedTuple):
    """How a sync has left the target: the object's count then, ours, and its time."""

    current: int
    desired: int
    time: float


@dataclass(frozen=True, slots=True)
class FreeRun:
    """The count of the free run, and its history."""

    count: int
    history: History


def free_run(before: FreeRun | None, last: Left | None, result: SyncResult) -> FreeRun | None:
    """Return the free run after a sync; None where its count is that of the object.

    ``last`` is how the sync before has left it: the free run had the count that was decided then.
    """
    decision, scale, inputs = result.decision, result.decision.scale, result.inputs
    if not isinstance(scale, Scale):
        return before
    current = scale.spec_replicas
    if before is None:
        if last is None or last.desired == current:
            return None
        history = inputs.history
        if last.desired != last.current:
            history = applied(
                result.target.spec, history, last.current, last.desired, last.time, now=inputs.now
            )
        before = FreeRun(last.desired, replace(history, pending=None))
    loads = [pods_of(one, scale) for one in decision.metrics]
    counted = replace(scale, spec_replicas=before.count, status_replicas=before.count)
    spec, seen = in_pods(decision, result.target.spec, inputs.observation, loads, counted)
    if not decision.metrics:
        # Nothing was measured at the object's count: its readings say nothing of another one.
        return before
    extensions = live(result.target.extensions)
    decided, history = decide(
        spec, result.flags, seen, before.history, inputs.now, inputs.stamp, extensions
    )
    if decided.rescale:
        decided, history = settle(spec, decided, intend(decided, history))
    return None if decided.desired == current else FreeRun(decided.desired, history)
