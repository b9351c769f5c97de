"""The page of one target: its state, its chart, any instant explained, and its configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable
from autoscaler.daemon.exposition.suggestions import similar
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.daemon.exposition.views import Views
from autoscaler.daemon.pages.answering import Html, frame, not_found
from autoscaler.daemon.pages.configuration import in_force
from autoscaler.daemon.pages.health import NO_RECORD
from autoscaler.daemon.pages.state_words import word
from autoscaler.daemon.pages.templating import render, target_path
from autoscaler.daemon.pages.views_in_time import LAST, View, view_of
from autoscaler.record.rows import Change, Mark, RecordError, RecordReader
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.instant import Explanation, explanation_at
from autoscaler.rendering.verdict import State, verdict
from autoscaler.sync.ports import SyncResult

MOST_CHANGES = 50
"""So many are listed, the last ones of the view."""
_NOT_SYNCED = "It was not synced yet since the daemon started, or since its metrics were changed."
_MARKS = {
    Mark.WRITTEN: "scaled",
    Mark.FOREIGN: "changed by others",
    Mark.FAILED: "failing",
    Mark.FALLBACK: "fallback",
    Mark.PAUSED: "paused",
    Mark.IDLE: "idle",
    Mark.HELD: "held",
    Mark.LIMITED: "limited",
    Mark.AT_MAXIMUM: "at maximum",
    Mark.BREAKER: "breaker",
    Mark.CONTROLLED: "controlled",
    Mark.CONTESTED: "contested",
    Mark.DISABLED: "disabled",
    Mark.STANDBY: "standby",
    Mark.REMOVED: "no longer configured",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """What the panel of an instant shows: an explanation, or a sentence why there is none."""

    at: float | None
    explanation: Explanation | None = None
    lines: Sequence[str] = ()
    near: float = 0.0
    """When the lines were decided."""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class _Change:
    """A change as the list shows it."""

    change: Change
    word: str
    marks: tuple[str, ...]


def target_page(views: Views, request: Request, now: float) -> Html:
    """Make the page, or the panel of the chosen instant if `part=explanation` asks for that."""
    key = "/".join(request.path_params[part] for part in ("namespace", "kind", "name"))
    view = view_of(request.query_params, now)
    if request.query_params.get("part") == "explanation":
        return _panel(views, key, view, now)
    known = views.states.known_of(key)
    if known is None and not _is_recorded(views, key):
        sentence = f"No target {printable(key)} is configured, and none of that name is recorded."
        return not_found(views, now, sentence, similar(views, key))
    last = None if known is None else known.last
    changes, more, problem = _changes(views, key, view)
    text = render(
        "target.html",
        key=key,
        known=known,
        state=State.UNKNOWN if known is None or known.state is None else known.state,
        state_word="not configured" if known is None else word(known.state or State.UNKNOWN),
        sentence=_sentence(known),
        decision=None if last is None else last.decision,
        view=view,
        lasts=LAST,
        recorded=views.record is not None,
        no_record=NO_RECORD,
        changes=changes,
        more=more,
        problem=problem,
        explained=_explained(views, key, view, now, last),
        in_force=None if known is None else in_force(known, views.config().flags, now),
        chart=f"/api/v1{target_path(key)}/chart",
        **frame(views, now, ""),
    )
    return Html(text)


def unknown_page(views: Views, request: Request, now: float) -> Html:
    """Make the page in place of one below `/targets` that names no target."""
    key = request.path_params["key"].strip("/")
    sentence = "The page of a target is /targets/NAMESPACE/KIND/NAME."
    return not_found(views, now, sentence, similar(views, key))


def _panel(views: Views, key: str, view: View, now: float) -> Html:
    last = None
    if views.record is None:
        known = views.states.known_of(key)
        last = None if known is None else known.last
    explained = _explained(views, key, view, now, last)
    return Html(render("explanation.html", explained=explained, view=view, now=now))


def _is_recorded(views: Views, key: str) -> bool:
    if views.record is None:
        return False
    try:
        return key in views.record.targets()
    except RecordError:
        return False


def _sentence(known: Known | None) -> str:
    if known is None:
        return "It is no longer configured; this is what is recorded of it."
    if known.last is None:
        return _NOT_SYNCED
    return printable(verdict(known.last), LONGEST_SENTENCE)


def _explained(
    views: Views, key: str, view: View, now: float, last: SyncResult | None
) -> Explained:
    """Explain the chosen instant, or the present; without a record only the present can be."""
    record = views.record
    if record is None:
        sentence = "" if view.at is None else "Only the present can be explained."
        lines = explain(last).split("\n") if last is not None else ()
        near = now if last is None else last.decision.time
        return Explained(None, None, lines, near, f"{NO_RECORD} {sentence}".strip())
    try:
        found = explanation_at(record, key, now if view.at is None else view.at)
    except RecordError as error:
        return Explained(view.at, sentence=f"The record cannot be read: {error}")
    if found is not None:
        return Explained(view.at, found)
    return Explained(view.at, sentence=_why_none(record, key, now if view.at is None else view.at))


def _why_none(record: RecordReader, key: str, at: float) -> str:
    try:
        lapses = record.lapses(key, at, at + 1.0)
    except RecordError:
        lapses = ()
    if lapses:
        return "Nothing was recorded at this instant: the daemon did not run, or lost it."
    return "Nothing is recorded of this instant."


def _changes(views: Views, key: str, view: View) -> tuple[list[_Change], bool, str]:
    """Return the changes in a view, the last ones first, whether there are more, and a problem."""
    if views.record is None:
        return [], False, ""
    try:
        found = views.record.changes([key], view.begin, view.end, limit=MOST_CHANGES + 1)
    except RecordError as error:
        return [], False, f"The record cannot be read: {error}"
    shown = [_Change(one, word(one.state), _marks(one)) for one in found[:MOST_CHANGES]]
    return shown, len(found) > MOST_CHANGES, ""


def _marks(change: Change) -> tuple[str, ...]:
    """Return the words for a change's marks, without that of its state."""
    words = (text for mark, text in _MARKS.items() if mark in change.marks)
    return tuple(text for text in words if text != word(change.state))
