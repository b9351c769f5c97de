"""`/changes` and `/decisions`: what is recorded, the last first, a page at a time."""

import json
from collections.abc import Iterator, Sequence

from autoscaler import clock
from autoscaler.core.text import rfc3339_milli
from autoscaler.daemon.api.answering import listed
from autoscaler.daemon.api.finding import record_of
from autoscaler.daemon.api.parameters import HistoryParameters
from autoscaler.daemon.api.problems import Parameter, bad
from autoscaler.daemon.api.tokens import place_after, token_of
from autoscaler.daemon.exposition.views import Views
from autoscaler.record.rows import Change, Mark, RecordError, RecordReader
from autoscaler.rendering.instant import change_json
from autoscaler.rendering.record import Json, whole
from autoscaler.sync.ports import SyncResult

MOST_BYTES, MOST_SECONDS = 8 << 20, 3.0
"""A page of decisions ends early beyond these."""


def changes(views: Views, asked: HistoryParameters, now: float) -> bytes:
    """Return a page of changes."""
    record = record_of(views, asked.target)
    found = _found(record, "changes", asked, now)
    shown = found[: asked.limit]
    token = _token("changes", shown) if len(found) > len(shown) else None
    # Also those between the last one and the first of the next page.
    lapses = record.lapses(None, found[-1].time, found[0].time) if found else ()
    unrecorded = [
        {"begin": rfc3339_milli(one.begin), "end": rfc3339_milli(one.end)} for one in lapses
    ]
    entries = (json.dumps(change_json(one)) for one in shown)
    return listed("changes", entries, token, lapses=unrecorded)


def decisions(views: Views, asked: HistoryParameters, now: float) -> bytes:
    """Return a page of whole decisions."""
    record = record_of(views, asked.target)
    found = _found(record, "decisions", asked, now)
    texts = list(_within_bounds(record, found[: asked.limit]))
    shown = found[: len(texts)]
    token = _token("decisions", shown) if len(found) > len(shown) else None
    return listed("decisions", texts, token)


def period(begin: float | None, end: float | None, now: float, usual: float) -> tuple[float, float]:
    """Return the time that is asked for; ``usual`` seconds of it unless told."""
    end = now if end is None else end
    begin = max(end - usual, 0.0) if begin is None else begin
    if begin >= end:
        raise bad(Parameter("from", rfc3339_milli(begin), f"must be before {rfc3339_milli(end)}"))
    return begin, end


def _found(record: RecordReader, of: str, asked: HistoryParameters, now: float) -> Sequence[Change]:
    """Return the changes of a page, and one more if there is a next page."""
    place = place_after(asked.continue_, of, int)
    before = None if place is None else int(place[0])
    begin, end = period(asked.from_, asked.to, now, now)
    targets = asked.target or None
    return record.changes(targets, begin, end, limit=asked.limit + 1, before=before)


def _token(of: str, shown: Sequence[Change]) -> str:
    return token_of(of, shown[-1].id)


def _within_bounds(record: RecordReader, found: Sequence[Change]) -> Iterator[str]:
    """Yield decisions as JSON until they are too large or take too long, but the first anyway."""
    until, size = clock.monotonic() + MOST_SECONDS, 0
    for one in found:
        if size > MOST_BYTES or (size and clock.monotonic() > until):
            return
        text = json.dumps(_decision(record, one))
        size += len(text)
        yield text


def _decision(record: RecordReader, change: Change) -> Json:
    shown: Json = {"id": change.id, "target": change.target, "time": rfc3339_milli(change.time)}
    if Mark.REMOVED in change.marks:
        return shown | {"decision": None, "missing": change.message}
    try:
        entry = record.entry(change)
    except RecordError as error:
        return shown | {"decision": None, "missing": str(error)}
    return shown | {"decision": whole(SyncResult(entry.rules.target, entry.decision, entry.write))}
