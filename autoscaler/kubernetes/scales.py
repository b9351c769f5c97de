"""Scales, written unless the count changed meanwhile, and the annotations of their objects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock

from autoscaler import clock
from autoscaler.core.observation import Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import (
    FIELD_MANAGER,
    NotWritten,
    NotWrittenReason,
    Superseded,
    WriteFailed,
    WriteOutcome,
    Written,
)
from autoscaler.kubernetes.api import MALFORMED, MERGE_PATCH, Api, JsonObject
from autoscaler.kubernetes.discovery import (
    REPLICAS,
    ScalableKinds,
    ScalableResource,
    annotations_of,
    manager_of,
    scale_of,
)
from autoscaler.kubernetes.election import ALWAYS_OPEN, WriteGate
from autoscaler.kubernetes.failures import Failure, in_namespace, malformed
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.retries import FailureKind, Retrier

_CONFLICT = 409
_APPLY_PATCH = "application/apply-patch+yaml"
PAUSE_FIELD_MANAGER = "autoscaler-pause"
"""The manager of the annotations in an object's managedFields: not the one of the replicas."""

_CANNOT_APPLY = frozenset({403, 405, 415})
"""To patch the scale is not permitted, or the server applies nothing there."""
_REFUSALS = frozenset({403, 404, 405})
_CONFLICT_PAUSE_SECONDS = 0.01
"""As the HPA waits between its tries (semantics 1.5)."""


class Scales:
    """Reads and writes scales, and annotations of their objects, for every kind that has them.

    The ``gate`` is asked before each try of a write; the ``observer`` is told once if a zero cannot
    be marked as ours, and if annotations may not be read.
    """

    def __init__(
        self, api: Api, gate: WriteGate = ALWAYS_OPEN, observer: Observer = UNOBSERVED
    ) -> None:
        self._api = api
        self._gate = gate
        self._observer = observer
        self._lock = Lock()
        self._told: set[str] = set()
        """The topics on which the observer was told something."""
        self.kinds = ScalableKinds(api)

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | Unavailable:
        """Read the scale; the message of Unavailable names the object and the cause."""
        again = False
        while True:
            resource = self.kinds.find(ref, deadline, again=again)
            if isinstance(resource, Failure):
                return Unavailable(resource.message)
            path = f"{resource.path(namespace, ref.name)}/scale"
            scale = self._scale(self._api.get(path, deadline))
            if isinstance(scale, Scale):
                return scale
            if again or scale.status != 404 or scale.missing:
                return Unavailable(in_namespace(scale, namespace))
            # The path is unknown: the version is no longer served, or the CRD is gone.
            again = True

    def read_annotated(
        self, namespace: str, ref: ScaleTargetRef, deadline: float, *, tells: bool = False
    ) -> Scale | Unavailable:
        """Read the scale, and by a second request the object's annotations, as `annotations_of`.

        Where they may not be read the scale is without them, which the observer is told once if
        this ``tells``; where they cannot, nothing may be decided.  At zero the scale has the field
        manager of `spec.replicas` too (semantics 6.7).
        """
        scale = self.read(namespace, ref, deadline)
        if isinstance(scale, Unavailable):
            return scale
        resource = self.kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return Unavailable(resource.message)
        # Listed by its name, since to list is the right that a watch needs too.
        named = {"fieldSelector": f"metadata.name={ref.name}"}
        answer = self._api.get(resource.path(namespace), deadline, named)
        if isinstance(answer, Failure):
            if answer.status not in _REFUSALS:
                return Unavailable(answer.message)
            if tells:
                unknown = "it is not known whether annotations pause a target"
                self._tell_once("annotations", f"{unknown}: {answer.message}")
            return scale
        try:
            objects = answer["items"]
            annotations = annotations_of(objects[0]["metadata"]) if objects else ()
        except MALFORMED:
            return Unavailable(malformed(self._api.server, f"no list of {resource.plural}").message)
        at_zero = objects and scale.spec_replicas == 0
        manager = manager_of(objects[0], REPLICAS) if at_zero else scale.replicas_by
        return replace(scale, annotations=annotations, replicas_by=manager)

    def annotate(
        self,
        namespace: str,
        ref: ScaleTargetRef,
        values: Mapping[str, str | None],
        deadline: float,
    ) -> Failure | None:
        """Set annotations, or remove those whose value is None; return why that failed."""
        resource = self.kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return resource
        # What was carried out and not answered may be sent again.
        answer = self._api.retrier.call(
            lambda: self._api.once(
                "PATCH",
                resource.path(namespace, ref.name),
                deadline,
                query={"fieldManager": PAUSE_FIELD_MANAGER},
                body={"metadata": {"annotations": dict(values)}},
                content_type=MERGE_PATCH,
            ),
            deadline,
        )
        return answer if isinstance(answer, Failure) else None

    def write(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Set the replicas, if they are still those of ``scale``; see `_ScaleWrite`.

        A zero is applied: the API omits it from a Scale, so an update leaves no field manager for
        it.  Of custom resources the API server applies no scale.
        """
        resource = self.kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return WriteFailed(resource.message)
        path = f"{resource.path(namespace, ref.name)}/scale"

        def get(until: float) -> Scale | Failure:
            return self._scale(self._api.once("GET", path, until))

        def put(version: str, until: float) -> Scale | Failure:
            body: JsonObject = {
                "apiVersion": resource.scale_api_version,
                "kind": "Scale",
                "metadata": {"name": ref.name, "namespace": namespace, "resourceVersion": version},
                "spec": {"replicas": replicas},
            }
            return self._scale(self._put(resource, path, body, until, apply=replicas == 0))

        may_write_until = partial(self._gate.may_write_until, namespace)
        write = _ScaleWrite(get, put, scale, replicas, deadline, may_write_until)
        outcome = write.carry_out(self._api.retrier)
        if isinstance(outcome, Failure):
            return WriteFailed(in_namespace(outcome, namespace))
        return outcome

    def _put(
        self, resource: ScalableResource, path: str, body: JsonObject, until: float, *, apply: bool
    ) -> JsonObject | Failure:
        """Send one try of a write, which is applied where that is wanted, known and permitted."""
        # A request that waits in a queue of the server, or of etcd, ends when we give it up.
        seconds = min(self._api.request_timeout, max(0.001, until - clock.monotonic()))
        query = {"fieldManager": FIELD_MANAGER, "timeout": f"{seconds:.3f}s"}
        may_write_until = partial(self._gate.may_write_until, body["metadata"]["namespace"])
        send = partial(
            self._api.once,
            path=path,
            deadline=until,
            body=body,
            may_send=lambda: may_write_until() > clock.monotonic(),
        )
        if apply and resource.built_in is not None:
            answer = send("PATCH", query={**query, "force": "true"}, content_type=_APPLY_PATCH)
            if not (isinstance(answer, Failure) and answer.status in _CANNOT_APPLY):
                return answer
            # Nothing in its objects says that a zero is ours.
            self._tell_once(
                resource.plural,
                f"a scale of {resource.plural} that is set to 0 does not name the autoscaler as "
                f"who set it, so that it stays at 0 if the state is lost: {answer.message}",
            )
        return send("PUT", query=query)

    def _scale(self, answer: JsonObject | Failure) -> Scale | Failure:
        return answer if isinstance(answer, Failure) else scale_of(answer, self._api.server)

    def _tell_once(self, topic: str, sentence: str) -> None:
        with self._lock:
            if topic in self._told:
                return
            self._told.add(topic)
        self._observer.watch_changed(ok=False, sentence=sentence)


@dataclass(slots=True)
class _ScaleWrite:
    """Writes one count under the resourceVersion that was read, and finds out whether it applied.

    ``get`` reads the scale, ``put`` writes it under a resourceVersion; each sends one request.  A
    conflict means only that the object changed, as at every step of a rollout: if the count is
    still the one that was decided on, it is written under the new version, else the new one stays.
    After a request whose outcome is unknown (time-out, broken connection, 5xx) the scale is read
    first; thanks to the resourceVersion one that arrives late is never applied a second time.
    ``may_write_until`` is called before each try: the try ends before that instant, which has
    passed if this process may not write.
    """

    get: Callable[[float], Scale | Failure]
    put: Callable[[str, float], Scale | Failure]
    decided_on: Scale
    replicas: int
    deadline: float
    may_write_until: Callable[[], float]
    _version: str = field(init=False)
    _must_read: bool = field(init=False)
    _uncertain: bool = False

    def __post_init__(self) -> None:
        self._version = self.decided_on.resource_version
        self._must_read = not self._version

    def carry_out(self, retrier: Retrier[Failure]) -> WriteOutcome | Failure:
        """Try until the outcome is known, as long as retrier and deadline allow."""
        outcome: WriteOutcome | Failure = retrier.call(self._once, self.deadline)
        if not isinstance(outcome, Failure) or not self._uncertain:
            return outcome
        # Also after a stop: one read, no new try.
        seen = self._judge(self.get(self.deadline))
        if seen is None:
            message = f"{outcome.message}; the count is still the old one"
            # The request may still be applied.
            return WriteFailed(message, unknown=True, resource_version=self._version)
        if isinstance(seen, Failure):
            message = f"{outcome.message}; it is not known whether the write landed"
            return WriteFailed(message, unknown=True, resource_version=self._version)
        return seen

    def _once(self) -> WriteOutcome | Failure:
        if self._must_read:
            seen = self._judge(self.get(self.deadline))
            if seen is not None:
                return seen
            if not self._version:
                return Failure(
                    "the API server sent a scale without a resourceVersion; nothing is written, "
                    "since a write without it could undo somebody else's"
                )
        may_write_until, now = self.may_write_until(), clock.monotonic()
        if may_write_until <= now:
            return self._not_leading()
        # A quarter of the time, at most 1 s, is left to read.
        until = self.deadline - min(1.0, (self.deadline - now) / 4)
        answer = self.put(self._version, min(until, may_write_until))
        return Written(answer) if isinstance(answer, Scale) else self._failed(answer)

    def _failed(self, failure: Failure) -> WriteOutcome | Failure:
        self._uncertain = self._uncertain or failure.uncertain
        if failure.kind is FailureKind.WITHHELD:
            return self._not_leading()
        conflict = failure.status == _CONFLICT
        self._must_read = failure.uncertain or conflict
        if not conflict:
            return failure
        return replace(failure, transient=True, retry_after=_CONFLICT_PAUSE_SECONDS)

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
        if seen.spec_replicas == self.decided_on.spec_replicas:
            return None
        if seen.spec_replicas == self.replicas and self._uncertain:
            return Written(seen)
        return Superseded(seen, uncertain=self._uncertain)
