"""Scales, written only if the count is unchanged, and the annotations of their objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import (
    FIELD_MANAGER,
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    WriteConflict,
    WriteFailure,
    WriteOutcome,
)
from autoscaler.kubernetes.api import APPLY_PATCH, MALFORMED, MERGE_PATCH, Api, JsonObject
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
PAUSE_FIELD_MANAGER = "autoscaler-pause"
"""Our field manager for annotations; the one for replicas is another, FIELD_MANAGER."""

_CANNOT_APPLY = frozenset({403, 405, 415})
"""The statuses if patching the scale is not permitted, or apply is not supported for it."""
_REFUSALS = frozenset({403, 404, 405})
_CONFLICT_PAUSE_SECONDS = 0.01
"""The HPA's pauses between its tries (semantics 1.5)."""


class Scales:
    """Reads and writes scales, and annotations of their objects, for every kind that has them.

    The ``gate`` is checked before each try of a write; the ``observer`` is informed once if a zero
    cannot be marked as ours, and if annotations may not be read.
    """

    def __init__(
        self, api: Api, gate: WriteGate = ALWAYS_OPEN, observer: Observer = UNOBSERVED
    ) -> None:
        self.api = api
        self.gate = gate
        self._observer = observer
        self._lock = Lock()
        self._told: set[str] = set()
        """The topics that were reported to the observer."""
        self.kinds = ScalableKinds(api)

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | ReadFailure:
        """Read the scale; the message of a ReadFailure names the object and the cause."""
        again = False
        while True:
            resource = self.kinds.find(ref, deadline, again=again)
            if isinstance(resource, Failure):
                return ReadFailure(resource.message)
            path = f"{resource.path(namespace, ref.name)}/scale"
            scale = scale_of(self.api.get(path, deadline), self.api.server)
            if isinstance(scale, Scale):
                return scale
            if again or scale.status != 404 or scale.missing:
                return ReadFailure(in_namespace(scale, namespace))
            # The path is unknown: the version is no longer served, or the CRD is gone.
            again = True

    def read_annotated(
        self, namespace: str, ref: ScaleTargetRef, deadline: float, *, tells: bool = False
    ) -> Scale | ReadFailure:
        """Read the scale, and by a second request the object's annotations, as `annotations_of`.

        Without the right to read them the scale lacks them, and the observer is informed once if
        this ``tells``; after another failure nothing may be decided. At zero the scale also has the
        field manager of `spec.replicas` (semantics 6.7).
        """
        scale = self.read(namespace, ref, deadline)
        if isinstance(scale, ReadFailure):
            return scale
        resource = self.kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return ReadFailure(resource.message)
        # Listed by its name, since a watch needs the right to list anyway.
        named = {"fieldSelector": f"metadata.name={ref.name}"}
        answer = self.api.get(resource.path(namespace), deadline, named)
        if isinstance(answer, Failure):
            if answer.status not in _REFUSALS:
                return ReadFailure(answer.message)
            if tells:
                unknown = "it is not known whether annotations pause a target"
                self.tell_once("annotations", f"{unknown}: {answer.message}")
            return scale
        try:
            objects = answer["items"]
            annotations = annotations_of(objects[0]["metadata"]) if objects else ()
        except MALFORMED:
            return ReadFailure(malformed(self.api.server, f"no list of {resource.plural}").message)
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
        """Set annotations, or remove those with the value None; return the failure, if any."""
        resource = self.kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return resource
        # A request that was executed but not answered may be sent again.
        answer = self.api.retrier.call(
            lambda: self.api.once(
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
        """Set the replicas, if they still equal ``scale``; see `_ScaleWrite`."""
        resource = self.kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return WriteFailure(resource.message)
        return _ScaleWrite(self, resource, (namespace, ref.name), scale, replicas, deadline).run()

    def tell_once(self, topic: str, sentence: str) -> None:
        """Report a sentence to the observer, once per topic."""
        with self._lock:
            if topic in self._told:
                return
            self._told.add(topic)
        self._observer.watch_changed(ok=False, sentence=sentence)


@dataclass(slots=True)
class _ScaleWrite:
    """Writes one count under the resourceVersion that was read, and determines the outcome.

    A conflict means only that the object changed, as at every step of a rollout: if the count is
    still the one decided on, the write is repeated under the new version, else the other client's
    count stays. After a request with an unknown outcome (timeout, broken connection, 5xx) the scale
    is read first; thanks to the resourceVersion a late request is never applied a second time.
    Before each try the gate tells the instant by which it must end; that has passed if this process
    may not write.
    """

    scales: Scales
    resource: ScalableResource
    place: tuple[str, str]
    """Namespace and name."""
    decided_on: Scale
    replicas: int
    deadline: float
    _path: str = field(init=False)
    _version: str = field(init=False)
    _must_read: bool = field(init=False)
    _uncertain: bool = False

    def __post_init__(self) -> None:
        self._path = f"{self.resource.path(*self.place)}/scale"
        self._version = self.decided_on.resource_version
        self._must_read = not self._version

    def run(self) -> WriteOutcome:
        """Try until the outcome is known, as long as retrier and deadline permit."""
        retrier: Retrier[Failure] = self.scales.api.retrier
        outcome: WriteOutcome | Failure = retrier.call(self._once, self.deadline)
        if not isinstance(outcome, Failure):
            return outcome
        if not self._uncertain:
            return WriteFailure(in_namespace(outcome, self.place[0]))
        # Also after a stop: one read, no new try.
        seen = self._read()
        if isinstance(seen, Failure | None):
            known = "the count is still the old one"
            if seen is not None:
                known = "it is not known whether the write landed"
            # The request may still be applied.
            message = f"{outcome.message}; {known}"
            return WriteFailure(message, unknown=True, resource_version=self._version)
        return seen

    def _once(self) -> WriteOutcome | Failure:
        if self._must_read:
            seen = self._read()
            if seen is not None:
                return seen
            if not self._version:
                return Failure(
                    "the API server sent a scale without a resourceVersion; nothing is written, "
                    "since a write without it could undo somebody else's"
                )
        may_write_until = self.scales.gate.may_write_until(self.place[0])
        now = clock.monotonic()
        if may_write_until <= now:
            return self._not_leading()
        # A quarter of the time, at most 1 s, is reserved for the read.
        until = self.deadline - min(1.0, (self.deadline - now) / 4)
        answer = scale_of(self._send(min(until, may_write_until)), self.scales.api.server)
        return AcceptedWrite(answer) if isinstance(answer, Scale) else self._failed(answer)

    def _send(self, until: float) -> JsonObject | Failure:
        """Send one try.

        A zero is sent by server-side apply if that is supported and permitted: the API omits it
        from a Scale, so an update leaves no field manager for it. The server does not support apply
        for scales of custom resources.
        """
        api, (namespace, name) = self.scales.api, self.place
        # A request that waits in a queue of the server, or of etcd, ends when the client gives up.
        seconds = min(api.request_timeout, max(0.001, until - clock.monotonic()))
        query = {"fieldManager": FIELD_MANAGER, "timeout": f"{seconds:.3f}s"}
        body: JsonObject = {
            "apiVersion": self.resource.scale_api_version,
            "kind": "Scale",
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": self._version},
            "spec": {"replicas": self.replicas},
        }
        send = partial(
            api.once,
            path=self._path,
            deadline=until,
            body=body,
            may_send=lambda: self.scales.gate.may_write_until(namespace) > clock.monotonic(),
        )
        if self.replicas == 0 and self.resource.built_in is not None:
            answer = send("PATCH", query={**query, "force": "true"}, content_type=APPLY_PATCH)
            if not (isinstance(answer, Failure) and answer.status in _CANNOT_APPLY):
                return answer
            # Nothing in its objects shows that a zero is ours.
            plural = self.resource.plural
            self.scales.tell_once(
                plural,
                f"{plural} that the autoscaler scales to 0 cannot be marked as scaled by it, and "
                f"stay at 0 if its state is lost: {answer.message}",
            )
        return send("PUT", query=query)

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
        return SkippedWrite(SkippedWriteReason.NOT_LEADING)

    def _read(self) -> WriteOutcome | Failure | None:
        """Return the outcome that the scale shows; None if the count may still be written."""
        api = self.scales.api
        seen = scale_of(api.once("GET", self._path, self.deadline), api.server)
        if isinstance(seen, Failure):
            return seen
        self._version = seen.resource_version
        if seen.spec_replicas == self.decided_on.spec_replicas:
            return None
        if seen.spec_replicas == self.replicas and self._uncertain:
            return AcceptedWrite(seen)
        return WriteConflict(seen, uncertain=self._uncertain)
