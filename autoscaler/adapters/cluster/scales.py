"""The scale subresource: read it, and write it unless the count changed meanwhile."""

from collections.abc import Callable
from dataclasses import replace

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.discovery import ScalableKinds, ScalableResource
from autoscaler.adapters.cluster.failures import Failure, in_namespace
from autoscaler.adapters.cluster.objects import JsonObject
from autoscaler.adapters.cluster.scale_json import scale_of
from autoscaler.core.contention import FIELD_MANAGER
from autoscaler.core.observation import Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import (
    NotWritten,
    NotWrittenReason,
    Superseded,
    WriteFailed,
    WriteOutcome,
    Written,
)
from autoscaler.transport.retries import Retrier
from autoscaler.transport.write_gate import ALWAYS_OPEN, WriteGate

_CONFLICT = 409
_CONFLICT_PAUSE_SECONDS = 0.01
"""As the HPA waits between its tries (semantics 1.5)."""


class Scales:
    """Fits `sync.ports.ScaleReader` and `ScaleWriter`, for every kind that has a scale.

    The ``gate`` is asked before each try of a write.
    """

    def __init__(self, api: Api, gate: WriteGate = ALWAYS_OPEN) -> None:
        self._api = api
        self._gate = gate
        self._kinds = ScalableKinds(api)

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | Unavailable:
        """Read the scale; the message of Unavailable names the object and the cause."""
        resource = self._kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return Unavailable(resource.message)
        scale = self._get(resource, namespace, ref.name, deadline)
        if isinstance(scale, Failure) and scale.status == 404 and not scale.missing:
            # The path is unknown: the version is no longer served, or the CRD is gone.
            resource = self._kinds.rediscover(ref, deadline)
            if isinstance(resource, Failure):
                return Unavailable(resource.message)
            scale = self._get(resource, namespace, ref.name, deadline)
        if isinstance(scale, Failure):
            return Unavailable(in_namespace(scale, namespace))
        return scale

    def write(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Set the replicas, if they are still those of ``scale``; see `_ScaleWrite`."""
        resource = self._kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return WriteFailed(resource.message)
        path = resource.scale_path(namespace, ref.name)

        def get(until: float) -> Scale | Failure:
            answer = self._api.once("GET", path, until)
            return answer if isinstance(answer, Failure) else scale_of(answer, self._api.server)

        def put(version: str, until: float) -> Scale | Failure:
            body = _body(resource, namespace, ref.name, version, replicas)
            # A request that waits in a queue of the server, or of etcd, ends when we give it up.
            seconds = min(self._api.request_timeout, max(0.001, until - clock.monotonic()))
            query = {"fieldManager": FIELD_MANAGER, "timeout": f"{seconds:.3f}s"}
            answer = self._api.once(
                "PUT", path, until, query=query, body=body, may_send=self._may_write
            )
            return answer if isinstance(answer, Failure) else scale_of(answer, self._api.server)

        write = _ScaleWrite(get, put, scale, replicas, deadline, self._gate.may_write_until)
        outcome = write.carry_out(self._api.retrier)
        if isinstance(outcome, Failure):
            return WriteFailed(in_namespace(outcome, namespace))
        return outcome

    def _may_write(self) -> bool:
        return self._gate.may_write_until() > clock.monotonic()

    def _get(
        self, resource: ScalableResource, namespace: str, name: str, deadline: float
    ) -> Scale | Failure:
        answer = self._api.get(resource.scale_path(namespace, name), deadline)
        return answer if isinstance(answer, Failure) else scale_of(answer, self._api.server)


class _ScaleWrite:
    """Writes one count under the resourceVersion that was read, and finds out whether it applied.

    ``get`` reads the scale, ``put`` writes it under a resourceVersion; each sends one request
    and returns before the deadline it is given.  A conflict means only that the object changed,
    as a Deployment does at every step of a rollout: if the count is still the one that was
    decided on, it is written under the new version, else the new count stays.  After a request
    whose outcome is unknown (time-out, broken connection, 5xx) the scale is read first; thanks to
    the resourceVersion a request that arrives late is never applied a second time.

    ``may_write_until`` is called before each try: it returns the instant before which the try must
    have ended, which has passed if this process may not write.
    """

    def __init__(
        self,
        get: Callable[[float], Scale | Failure],
        put: Callable[[str, float], Scale | Failure],
        decided_on: Scale,
        replicas: int,
        deadline: float,
        may_write_until: Callable[[], float],
    ) -> None:
        self._get = get
        self._put = put
        self._decided_on = decided_on
        self._replicas = replicas
        self._deadline = deadline
        self._may_write_until = may_write_until
        self._version = decided_on.resource_version
        self._must_read = not decided_on.resource_version
        self._uncertain = False

    def carry_out(self, retrier: Retrier[Failure]) -> WriteOutcome | Failure:
        """Try until the outcome is known, as long as retrier and deadline allow."""
        outcome: WriteOutcome | Failure = retrier.call(self._once, self._deadline)
        if not isinstance(outcome, Failure) or not self._uncertain:
            return outcome
        # Also after a stop: one read, no new try.
        seen = self._judge(self._get(self._deadline))
        if seen is None:
            message = f"{outcome.message}; the count is still the old one"
            return WriteFailed(message, unknown=True)  # the request may still be applied
        if isinstance(seen, Failure):
            message = f"{outcome.message}; it is not known whether the write landed"
            return WriteFailed(message, unknown=True)
        return seen

    def _once(self) -> WriteOutcome | Failure:
        if self._must_read:
            seen = self._judge(self._get(self._deadline))
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
        answer = self._put(self._version, min(self._try_until(), may_write_until))
        if isinstance(answer, Scale):
            return Written(answer)
        self._uncertain = self._uncertain or answer.uncertain
        if answer.withheld:
            return self._not_leading()
        self._must_read = answer.uncertain or answer.status == _CONFLICT
        if answer.status == _CONFLICT:
            return replace(answer, transient=True, retry_after=_CONFLICT_PAUSE_SECONDS)
        return answer

    def _not_leading(self) -> WriteOutcome | Failure:
        """Return the outcome of a write that may not be tried, or not again."""
        if self._uncertain:
            return Failure("this process does not lead any more")
        return NotWritten(NotWrittenReason.NOT_LEADING)

    def _judge(self, seen: Scale | Failure) -> WriteOutcome | Failure | None:
        """Return what a scale that was read means; None if the count may still be written."""
        if isinstance(seen, Failure):
            return seen
        self._version = seen.resource_version
        if seen.spec_replicas == self._decided_on.spec_replicas:
            return None
        if seen.spec_replicas == self._replicas and self._uncertain:
            return Written(seen)
        return Superseded(seen, uncertain=self._uncertain)

    def _try_until(self) -> float:
        """Return the end of a try, which leaves a quarter of the time, at most 1 s, to read."""
        left = self._deadline - clock.monotonic()
        return self._deadline - min(1.0, left / 4)


def _body(
    resource: ScalableResource, namespace: str, name: str, version: str, replicas: int
) -> JsonObject:
    return {
        "apiVersion": resource.scale_api_version,
        "kind": "Scale",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": version},
        "spec": {"replicas": replicas},
    }
