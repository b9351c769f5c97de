"""Kubernetes Events (core/v1), as `kubectl describe` shows them below the object."""

from dataclasses import dataclass
from enum import Enum

from autoscaler import clock
from autoscaler.core.text import printable, rfc3339
from autoscaler.kubernetes.api import MERGE_PATCH, Api, JsonObject, path_of
from autoscaler.kubernetes.failures import Failure

COMPONENT = "autoscaler"
"""`source.component` of our Events."""

_REQUEST_SECONDS = 2.0
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 253
_NAMESPACE_TERMINATING = "NamespaceTerminating"


@dataclass(frozen=True, slots=True)
class InvolvedObject:
    """The object of an Event; ``uid`` is empty if unknown."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(slots=True)
class Occurrences:
    """An event about an object, once or repeated; the instants are Unix seconds."""

    involved: InvolvedObject
    type: str
    reason: str
    message: str
    first: float
    last: float = 0.0
    count: int = 0
    name: str = ""
    """The name of the Event in the cluster; empty before it exists."""
    seen: float = 0.0
    """The last occurrence, by `clock.monotonic`."""


class EventOutcome(Enum):
    """The outcome of writing an Event."""

    WRITTEN = "it is in the cluster"
    DROPPED = "it will never be accepted, such as in a namespace that is being deleted"
    FORBIDDEN = "the right is missing"
    LATER = "the server does not answer or is overloaded"


@dataclass(frozen=True, slots=True)
class EventResult:
    """The outcome of an Event, the reason, and the seconds that the server asks to wait, if any."""

    fate: EventOutcome
    message: str = ""
    retry_after: float | None = None


class Events:
    """Writes Events one after the other; not thread-safe."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._last_number = 0

    def write(self, happened: Occurrences, deadline: float) -> EventResult:
        """Create the Event, or update it by name; writes nothing while a 429 delays requests."""
        if self._api.retrier.is_held:
            return EventResult(EventOutcome.LATER, "the API server is short of room")
        involved, until = happened.involved, min(deadline, clock.monotonic() + _REQUEST_SECONDS)
        changing = {
            "message": printable(happened.message, _LONGEST_MESSAGE),
            "count": happened.count,
            "lastTimestamp": rfc3339(happened.last),
        }
        path = path_of("v1", "events", involved.namespace)
        if happened.name:
            own = path_of("v1", "events", involved.namespace, happened.name)
            answer = self._api.once("PATCH", own, until, body=changing, content_type=MERGE_PATCH)
            if not isinstance(answer, Failure) or answer.status != 404:
                return _sent(answer)
            happened.name = ""
        name = self._new_name(involved.name)
        new = _event(happened, name) | changing
        answer = self._api.once("POST", path, until, body=new)
        # Without an answer it may exist; then it is updated later.
        if not isinstance(answer, Failure) or answer.uncertain:
            happened.name = name
        return _sent(answer)

    def _new_name(self, of: str) -> str:
        """Return `<object>.<hex>`, as client-go does, from the current time in nanoseconds."""
        self._last_number = max(self._last_number + 1, int(clock.wall() * 1e9))
        suffix = f".{self._last_number:x}"
        return of[: _LONGEST_NAME - len(suffix)].rstrip("-.") + suffix


def _sent(answer: JsonObject | Failure) -> EventResult:
    if not isinstance(answer, Failure):
        return EventResult(EventOutcome.WRITTEN)
    if answer.status == 403 and answer.cause != _NAMESPACE_TERMINATING:
        return EventResult(EventOutcome.FORBIDDEN, answer.message)
    lasting = 400 <= answer.status < 500 and answer.status not in {401, 429}
    fate = EventOutcome.DROPPED if lasting else EventOutcome.LATER
    return EventResult(fate, answer.message, answer.retry_after)


def _event(happened: Occurrences, name: str) -> JsonObject:
    """Return the Event without the fields that change with each occurrence."""
    involved = happened.involved
    about = {
        "apiVersion": involved.api_version,
        "kind": involved.kind,
        "namespace": involved.namespace,
        "name": involved.name,
        "uid": involved.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": involved.namespace},
        "involvedObject": {key: value for key, value in about.items() if value},
        "type": happened.type,
        "reason": happened.reason,
        "firstTimestamp": rfc3339(happened.first),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    }
