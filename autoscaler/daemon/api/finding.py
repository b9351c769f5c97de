"""Which target a request means, and which may have been meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from autoscaler.core.text import printable
from autoscaler.daemon.api.problems import NO_RECORD, ProblemError
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.daemon.exposition.views import Views
from autoscaler.record.rows import RecordReader

MOST_SUGGESTED = 5
_MOST_COMPARED = 500
_LONGEST_COMPARED = 300


def configured(views: Views, key: str) -> Known:
    """Return a target of the configuration; raises ProblemError if there is none of that key."""
    known = views.states.known_of(key)
    if known is None:
        recorded = views.record is not None and key in views.record.targets()
        more = "; what is recorded of it is still there" if recorded else ""
        suggestions = () if recorded else similar(views, key)
        raise _unknown(f"no target {printable(key)} is configured{more}", suggestions)
    return known


def record_of(views: Views, keys: Iterable[str] = ()) -> RecordReader:
    """Return the record; raises ProblemError without one, and for targets that it cannot know."""
    record = views.record
    if record is None:
        raise ProblemError(503, NO_RECORD)
    unknown = [key for key in keys if views.states.known_of(key) is None]
    if unknown:
        recorded = frozenset(record.targets())
        for key in unknown:
            if key not in recorded:
                sentence = f"no target {printable(key)} is configured, and none is recorded"
                raise _unknown(sentence, similar(views, key))
    return record


def _unknown(sentence: str, suggestions: Sequence[str]) -> ProblemError:
    advice = f"; did you mean {' or '.join(map(printable, suggestions))}?" if suggestions else ""
    return ProblemError(404, sentence + advice, suggestions=suggestions)


def similar(views: Views, key: str) -> tuple[str, ...]:
    """Return the keys of targets that may have been meant, the likeliest first."""
    keys = [one.target.key for one in views.states.known()]
    name, namespace = _name(key), key.partition("/")[0] + "/"
    found = [one for one in keys if _name(one) == name]
    if not found:
        near = [one for one in keys if one.startswith(namespace)] or keys
        shown = key[:_LONGEST_COMPARED]
        found = get_close_matches(shown, near[:_MOST_COMPARED], MOST_SUGGESTED, 0.5)
    return tuple(found[:MOST_SUGGESTED])


def _name(key: str) -> str:
    return key.rpartition("/")[2].lower()
