"""Which target a request means, and the record where it asks for the past."""

from collections.abc import Iterable, Sequence

from autoscaler.core.text import printable
from autoscaler.daemon.api.problems import ProblemError
from autoscaler.daemon.exposition.suggestions import similar
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.daemon.exposition.views import RECORD_IS_OFF, Views
from autoscaler.record.rows import RecordReader


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
        raise ProblemError(503, RECORD_IS_OFF)
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
