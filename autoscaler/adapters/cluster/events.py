"""Kubernetes Events (core/v1), as `kubectl describe` shows them below the object."""

from dataclasses import dataclass
from enum import Enum

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.objects import JsonObject, path_of
from autoscaler.core.text import printable, rfc3339

COMPONENT = "autoscaler"
"""`source.component` of our Events."""

_REQUEST_SECONDS = 2.0
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 253
_MERGE_PATCH = "application/merge-patch+json"
_NAMESPACE_TERMINATING = "NamespaceTerminating"


@dataclass(frozen=True, slots=True)
class Involved:
    """The object that an Event is about; ``uid`` is empty where it is not known."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(slots=True)
class Occurrences:
    """Something that happened to an object, once or repeatedly; the instants are Unix seconds."""

    involved: Involved
    type: str
    reason: str
    message: str
    first: float
    last: float
    count: int = 0
    name: str = ""
    """The name of the Event in the cluster; empty where there is none yet."""


class Fate(Enum):
    """The outcome of writing an Event."""

    WRITTEN = "it is in the cluster"
    DROPPED = "it will never be accepted, such as in a namespace that is being deleted"
    FORBIDDEN = "the right is missing"
    LATER = "the server does not answer or is overloaded"


@dataclass(frozen=True, slots=True)
class Sent:
    """The fate of an Event, why, and the seconds that the server asks to wait, if any."""

    fate: Fate
    message: str = ""
    retry_after: float | None = None


class Events:
    """Writes Events one after the other; not thread-safe."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._last_number = 0

    def write(self, happened: Occurrences, deadline: float) -> Sent:
        """Create the Event, or update the one that has its name.

        One that does not exist any more is created under a new name, which ``happened`` then has.
        Sends nothing while a 429 holds requests back.
        """
        if self._api.retrier.held:
            return Sent(Fate.LATER, "the API server is short of room")
        until = min(deadline, clock.monotonic() + _REQUEST_SECONDS)
        if happened.name:
            failure = self._patch(happened, until)
            if failure is None or failure.status != 404:
                return _sent(failure)
            happened.name = ""
        return _sent(self._create(happened, until))

    def _create(self, happened: Occurrences, until: float) -> Failure | None:
        name = self._new_name(happened.involved.name)
        answer = self._api.once(
            "POST", _path(happened.involved), until, body=_event(happened, name)
        )
        # Without an answer it may exist all the same; then it is updated later.
        if not isinstance(answer, Failure) or answer.uncertain:
            happened.name = name
        return answer if isinstance(answer, Failure) else None

    def _patch(self, happened: Occurrences, until: float) -> Failure | None:
        answer = self._api.once(
            "PATCH",
            _path(happened.involved, happened.name),
            until,
            body={
                "message": printable(happened.message, _LONGEST_MESSAGE),
                "count": happened.count,
                "lastTimestamp": rfc3339(happened.last),
            },
            content_type=_MERGE_PATCH,
        )
        return answer if isinstance(answer, Failure) else None

    def _new_name(self, of: str) -> str:
        """Return `<object>.<hex>`, as client-go does, with the nanoseconds of now."""
        self._last_number = max(self._last_number + 1, int(clock.wall() * 1e9))
        suffix = f".{self._last_number:x}"
        return of[: _LONGEST_NAME - len(suffix)].rstrip("-.") + suffix


def _sent(failure: Failure | None) -> Sent:
    if failure is None:
        return Sent(Fate.WRITTEN)
    if failure.status == 403 and failure.cause != _NAMESPACE_TERMINATING:
        return Sent(Fate.FORBIDDEN, failure.message)
    lasting = 400 <= failure.status < 500 and failure.status not in {401, 429}
    fate = Fate.DROPPED if lasting else Fate.LATER
    return Sent(fate, failure.message, failure.retry_after)


def _path(involved: Involved, name: str = "") -> str:
    return path_of("v1", "events", involved.namespace, name)


def _event(happened: Occurrences, name: str) -> JsonObject:
    involved = happened.involved
    about = {
        "apiVersion": involved.api_version,
        "kind": involved.kind,
        "namespace": involved.namespace,
        "name": involved.name,
    }
    if involved.uid:
        about["uid"] = involved.uid
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": involved.namespace},
        "involvedObject": about,
        "type": happened.type,
        "reason": happened.reason,
        "message": printable(happened.message, _LONGEST_MESSAGE),
        "firstTimestamp": rfc3339(happened.first),
        "lastTimestamp": rfc3339(happened.last),
        "count": happened.count,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    }
