"""One write of a scale, from the count that was decided on to an outcome that is sure."""

from collections.abc import Callable
from dataclasses import replace

from autoscaler import clock
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.retrier import RequestRetrier
from autoscaler.core.observation import Scale
from autoscaler.core.writes import (
    NotWritten,
    NotWrittenReason,
    Superseded,
    WriteFailed,
    WriteOutcome,
    Written,
)

_CONFLICT = 409
_CONFLICT_PAUSE_SECONDS = 0.01
"""As the HPA waits between its tries (semantics 1.5)."""


class ScaleWrite:
    """Writes a count under the resourceVersion that was read, and finds out whether it stands.

    ``look`` reads the scale, ``put`` writes it under a resourceVersion; each sends one request
    and returns before the deadline it is given.  A conflict says only that the object changed,
    and a Deployment's does at every step of a rollout: if the count is still the one that was
    decided on, it is written under the new version, else the other's count stands.  After a
    request whose end is unknown (time-out, cut, 5xx) the scale is read before anything else; the
    resourceVersion sees to it that a late twin of such a request never lands twice.

    ``may_write_until`` is asked before each try: the instant before which it must have ended,
    and which has passed where this process may not write.
    """

    def __init__(
        self,
        look: Callable[[float], Scale | Failure],
        put: Callable[[str, float], Scale | Failure],
        decided_on: Scale,
        replicas: int,
        deadline: float,
        may_write_until: Callable[[], float],
    ) -> None:
        self._look = look
        self._put = put
        self._decided_on = decided_on
        self._replicas = replicas
        self._deadline = deadline
        self._may_write_until = may_write_until
        self._version = decided_on.resource_version
        self._must_look = not decided_on.resource_version
        self._uncertain = False

    def carry_out(self, retrier: RequestRetrier) -> WriteOutcome | Failure:
        """Try until the outcome is known, as long as retrier and deadline allow."""
        outcome = retrier.call(self._once, self._deadline)
        if not isinstance(outcome, Failure) or not self._uncertain:
            return outcome
        # The write in hand is finished even when we are told to stop: one look, no new try.
        seen = self._judge(self._look(self._deadline))
        if seen is None:
            message = f"{outcome.message}; the count is still the old one"
            return WriteFailed(message, unknown=True)  # a request in flight may land yet
        if isinstance(seen, Failure):
            message = f"{outcome.message}; it is not known whether the write landed"
            return WriteFailed(message, unknown=True)
        return seen

    def _once(self) -> WriteOutcome | Failure:
        if self._must_look:
            seen = self._judge(self._look(self._deadline))
            if seen is not None:
                return seen
            if not self._version:
                return Failure(
                    "the API server sent a scale without a resourceVersion; nothing is written, "
                    "since a write without it could undo somebody else's"
                )
        return self._try()

    def _try(self) -> WriteOutcome | Failure:
        may_write_until = self._may_write_until()
        if may_write_until <= clock.monotonic():
            return self._not_leading()
        answer = self._put(self._version, min(self._time_to_put(), may_write_until))
        if isinstance(answer, Scale):
            return Written(answer)
        self._uncertain = self._uncertain or answer.uncertain
        if answer.withheld:
            return self._not_leading()
        self._must_look = answer.uncertain or answer.status == _CONFLICT
        if answer.status == _CONFLICT:
            return replace(answer, transient=True, retry_after=_CONFLICT_PAUSE_SECONDS)
        return answer

    def _not_leading(self) -> WriteOutcome | Failure:
        """Say what became of a write that may not be tried, or not again."""
        if self._uncertain:
            return Failure("this process does not lead any more")
        return NotWritten(NotWrittenReason.NOT_LEADING)

    def _judge(self, seen: Scale | Failure) -> WriteOutcome | Failure | None:
        """Say what a look means; None when the count may still be written."""
        if isinstance(seen, Failure):
            return seen
        self._version = seen.resource_version
        if seen.spec_replicas == self._decided_on.spec_replicas:
            return None
        if seen.spec_replicas == self._replicas and self._uncertain:
            return Written(seen)
        return Superseded(seen, uncertain=self._uncertain)

    def _time_to_put(self) -> float:
        """Keep a quarter of the time, at most a second, to learn whether the write was applied."""
        left = self._deadline - clock.monotonic()
        return self._deadline - min(1.0, left / 4)
