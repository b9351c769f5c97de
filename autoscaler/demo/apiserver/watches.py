"""Watches: the changes of a collection, as a stream of events."""

from collections.abc import Callable, Iterator, Mapping

from autoscaler import clock
from autoscaler.demo.apiserver.objects import KubeObject, ServedResource, key, meta, typed
from autoscaler.demo.apiserver.refusals import Refused, bad_request
from autoscaler.demo.apiserver.store import ObjectStore, StoreChange

_LONGEST_SECONDS = 1800
_POLL_SECONDS = 1.0


def watch_events(
    store: ObjectStore,
    resource: ServedResource,
    namespace: str,
    query: Mapping[str, str],
    going: Callable[[], bool],
) -> Iterator[KubeObject | None]:
    """Read the query and return the stream, which yields None about each second without events.

    It begins after the query's `resourceVersion`, or now.  It ends at its `timeoutSeconds`, with a
    bookmark where they are allowed, or with one ERROR event, or when ``going`` returns False: the
    server stops, or the client does not listen any more.  Raises `Refused` for what is no number.
    """
    version = number(query, "resourceVersion") or store.version
    deadline = clock.monotonic() + (number(query, "timeoutSeconds") or _LONGEST_SECONDS)
    bookmarks = query.get("allowWatchBookmarks") == "true"

    def stream(version: int) -> Iterator[KubeObject | None]:
        while going() and (left := deadline - clock.monotonic()) > 0:
            try:
                changes = store.changes_after(version, min(left, _POLL_SECONDS))
            except Refused as refused:
                yield {"type": "ERROR", "object": refused.status}
                return
            for change in changes:
                version = change.version
                obj = change.current or change.previous or {}
                if change.resource == resource.qualified and namespace in {"", key(obj)[0]}:
                    yield _event(change, obj)
            if not changes:
                yield None
        if bookmarks and going():
            bookmark = typed(resource, {"metadata": {"resourceVersion": str(version)}})
            yield {"type": "BOOKMARK", "object": bookmark}

    return stream(version)


def _event(change: StoreChange, obj: KubeObject) -> KubeObject:
    if change.current is None:
        metadata = {**meta(obj), "resourceVersion": str(change.version)}
        return {"type": "DELETED", "object": {**obj, "metadata": metadata}}
    return {"type": "ADDED" if change.previous is None else "MODIFIED", "object": obj}


def number(query: Mapping[str, str], name: str) -> int:
    """Read a parameter of a request, 0 where there is none.  Raises `Refused` for no number."""
    text = query.get(name) or "0"
    if not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}"')
    return int(text)
