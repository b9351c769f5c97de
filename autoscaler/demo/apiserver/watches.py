"""Watches: the changes of a selection, as a stream of events."""

from collections.abc import Callable, Iterator, Mapping

from autoscaler import clock
from autoscaler.demo.apiserver import selection, status
from autoscaler.demo.apiserver.objects import KubeObject, meta
from autoscaler.demo.apiserver.resources import Resource
from autoscaler.demo.apiserver.selection import Selection
from autoscaler.demo.apiserver.store import Event, ObjectStore

# kube-apiserver ends a watch after --min-request-timeout (1800 s) to twice that, and sends a
# bookmark each minute and two seconds before the end of a watch.
_DEFAULT_TIMEOUT = 1800.0
_BOOKMARK_PERIOD = 60.0
_BOOKMARK_BEFORE_END = 2.0
_POLL = 1.0


def events(
    store: ObjectStore,
    resource: Resource,
    chosen: Selection,
    query: Mapping[str, str],
    going: Callable[[], bool],
) -> Iterator[KubeObject | None]:
    """Check the query and return the stream, which yields None about each second without events.

    ``going`` returns whether the server still runs and the client still listens.  The stream
    ends at the query's `timeoutSeconds`, or with one ERROR event.  Raises `ApiError` for a query
    that cannot be parsed.
    """
    given = query.get("resourceVersion", "")
    if given and not given.isdecimal():
        message = (
            f'resourceVersion: Invalid value: "{given}": strconv.ParseUint: parsing "{given}": '
            "invalid syntax"
        )
        raise status.ApiError(500, "", message)
    timeout = selection.number(query, "timeoutSeconds") or _DEFAULT_TIMEOUT
    bookmarks = _true(query, "allowWatchBookmarks")
    initial = _true(query, "sendInitialEvents")
    if initial and query.get("resourceVersionMatch") != "NotOlderThan":
        raise status.bad_request(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    stream = _Stream(store, resource, chosen, clock.monotonic() + timeout, going)
    return stream.run(int(given or "0"), initial=initial, bookmarks=bookmarks)


class _Stream:
    def __init__(
        self,
        store: ObjectStore,
        resource: Resource,
        chosen: Selection,
        deadline: float,
        going: Callable[[], bool],
    ) -> None:
        self._store = store
        self._resource = resource
        self._chosen = chosen
        self._deadline = deadline
        self._going = going

    def run(self, version: int, *, initial: bool, bookmarks: bool) -> Iterator[KubeObject | None]:
        if initial or version == 0:
            objects, version = self._store.list_all(self._resource)
            for obj in objects:
                if self._chosen.matches(obj):
                    yield _event("ADDED", self._resource, obj)
            if initial and bookmarks:
                yield self._bookmark(version, first=True)
        yield from self._follow(version, bookmarks=bookmarks)

    def _follow(self, version: int, *, bookmarks: bool) -> Iterator[KubeObject | None]:
        due = self._next_bookmark(clock.monotonic())
        while self._going() and (left := self._deadline - clock.monotonic()) > 0:
            try:
                news = self._store.events_after(version, min(left, _POLL))
            except status.ApiError as error:
                yield {"type": "ERROR", "object": error.status}
                return
            for event in news:
                version = event.version
                seen = self._seen(event)
                if seen is not None:
                    yield seen
            if not news:
                yield None
            if bookmarks and clock.monotonic() >= due:
                yield self._bookmark(version)
                due = self._next_bookmark(clock.monotonic())

    def _seen(self, event: Event) -> KubeObject | None:
        """Return the event as this watch sees it: leaving the selection is a deletion."""
        if event.resource != self._resource.qualified:
            return None
        old, new = event.previous, event.current
        was = old is not None and self._chosen.matches(old)
        if new is not None and self._chosen.matches(new):
            return _event("MODIFIED" if was else "ADDED", self._resource, new)
        if old is None or not was:
            return None
        last = {**old, "metadata": {**meta(old), "resourceVersion": str(event.version)}}
        return _event("DELETED", self._resource, last)

    def _bookmark(self, version: int, *, first: bool = False) -> KubeObject:
        metadata: KubeObject = {"resourceVersion": str(version)}
        if first:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return _event("BOOKMARK", self._resource, {"metadata": metadata})

    def _next_bookmark(self, now: float) -> float:
        last = self._deadline - _BOOKMARK_BEFORE_END
        regular = now + _BOOKMARK_PERIOD
        return min(regular, last) if last > now else regular


def _event(kind: str, resource: Resource, obj: KubeObject) -> KubeObject:
    typed = {"kind": resource.kind, "apiVersion": resource.group_version, **obj}
    return {"type": kind, "object": typed}


def _true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"1", "true"}
