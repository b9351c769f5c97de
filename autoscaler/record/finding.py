"""Looks for changes in the record."""

from autoscaler.record.rows import Change, Mark, RecordReader

_PAGE = 200
_MOST_PAGES = 50
_AFTER = 1e-3


def last_count_change(record: RecordReader, target: str, until: float) -> Change | None:
    """Return the last change of a target's count at or before an instant, by us or by others.

    Looks at 10,000 changes at most.  Raises RecordError.
    """
    before = None
    for _ in range(_MOST_PAGES):
        found = record.changes([target], 0.0, until + _AFTER, limit=_PAGE, before=before)
        for one in found:
            if one.time <= until and one.marks & (Mark.WRITTEN | Mark.FOREIGN):
                return one
        if len(found) < _PAGE:
            return None
        before = found[-1].id
    return None
