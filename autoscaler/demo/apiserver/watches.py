"""Watches: the changes of a collection, as a stream of events."""

from collections.abc import Callable, Iterator, Mapping

from autoscaler import clock
from autoscaler.demo.apiserver.objects import KubeObject, ServedResource, meta, typed
from autoscaler.demo.apiserver.refusals import Refused, bad_request
from autoscaler.demo.apiserver.selections import Selection, selection
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
    server stops, or the client does not listen any more.  An object that comes to be selected is
    ADDED, one that is selected no more DELETED.  Raises `Refused` for a query that cannot be read.
    """
    asked = selection(namespace, query)
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
                if change.resource == resource.qualified:
                    event = _event(change, asked)
                    if event is not None:
                        yield event
            if not changes:
                yield None
        if bookmarks and going():
            bookmark = typed(resource, {"metadata": {"resourceVersion": str(version)}})
            yield {"type": "BOOKMARK", "object": bookmark}

    return stream(version)


def _event(change: StoreChange, asked: Selection) -> KubeObject | None:
    """Return what a watch is told of a change, if it concerns what is asked for."""
    before, after = change.previous, change.current
    if after is not None and asked.has(after):
        return {"type": "MODIFIED" if asked.has(before) else "ADDED", "object": after}
    if before is not None and asked.has(before):
        metadata = {**meta(before), "resourceVersion": str(change.version)}
        return {"type": "DELETED", "object": {**before, "metadata": metadata}}
    return None


def number(query: Mapping[str, str], name: str) -> int:
    """Read a parameter of a request, 0 where there is none.  Raises `Refused` for no number."""
    text = query.get(name) or "0"
    if not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}"')
    return int(text)
