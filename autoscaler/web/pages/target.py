"""The page of one target: its state, its chart, an explained instant, and its configuration."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request

from autoscaler.agreement.sentences import AGREEMENT_SECONDS
from autoscaler.config.durations import format_seconds as duration
from autoscaler.core.classification import State
from autoscaler.core.extensions import Extensions, Schedule
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.spec import Flags
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.text import instant_of, printable, rfc3339_milli
from autoscaler.persistence.record.rows import Change, RecordError
from autoscaler.quantities import format_fine
from autoscaler.rendering import target_rules, wording
from autoscaler.rendering.answers import Disagreement, Explanation, TargetAgreement, path_of_target
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.instant import explanation_at
from autoscaler.rendering.record import metric_of
from autoscaler.schedules import next_window
from autoscaler.telemetry.target_states import NOT_SYNCED_YET, TargetFacts
from autoscaler.web.answering import Page
from autoscaler.web.pages.agreement import VERDICT_WORDS, bar_of
from autoscaler.web.pages.frame import NO_RECORD, ignored, not_found, page
from autoscaler.web.site import Views

# -- which time ------------------------------------------------------------------------------------

LAST = {
    "15m": (900.0, "15 min"),
    "1h": (3600.0, "1 h"),
    "6h": (6 * 3600.0, "6 h"),
    "24h": (24 * 3600.0, "24 h"),
    "7d": (7 * 86400.0, "7 d"),
    "14d": (14 * 86400.0, "14 d"),
}
"""The times up to now by their parameter: seconds and words."""
USUAL = "1h"
_SHORTEST, _LONGEST = 60.0, 366 * 86400.0
_LATEST = 4_102_444_800.0
"""The year 2100."""


@dataclass(frozen=True, slots=True)
class View:
    """A time, in Unix seconds; ``at`` is the selected instant, None for now.

    ``last`` is one of `LAST` if the view ends now; else it is empty.
    """

    begin: float
    end: float
    last: str
    at: float | None = None

    @property
    def live(self) -> bool:
        """Whether it ends now."""
        return bool(self.last) and self.at is None

    def to(self, at: float | None = None, shift: float = 0.0, zoom: float = 1.0) -> str:
        """Return the query of a fixed time, moved by a part of its length, or longer."""
        length = self.end - self.begin
        span = min(length * zoom, _LONGEST)
        begin = (self.begin + self.end - span) / 2 + shift * length
        begin = min(max(begin, 0.0), _LATEST - span)
        query = {"from": rfc3339_milli(begin), "to": rfc3339_milli(begin + span)}
        if at is not None:
            query["at"] = rfc3339_milli(at)
        return "?" + urlencode(query, safe=":")


def view_of(query: Mapping[str, str], now: float) -> tuple[View, list[str]]:
    """Read the query of a URL; an invalid time is ignored, with a message."""
    wrong: list[str] = []
    begin, end, at = (_instant(query, key, wrong) for key in ("from", "to", "at"))
    last = query.get("last", "")
    if last and last not in LAST:
        wrong.append(ignored("last", last, f"one of {', '.join(LAST)}"))
    if begin is not None and end is not None:
        if 0 < end - begin <= _LONGEST:
            if end - begin < _SHORTEST:
                begin, end = _around((begin + end) / 2, _SHORTEST)
            return View(begin, end, "", at), wrong
        wrong.append("from and to are ignored: to must be after from, by at most 366 days.")
    elif not (query.get("from") and query.get("to")):
        given = [key for key, value in (("from", begin), ("to", end)) if value is not None]
        wrong += [f"{key} is ignored: there must be both from and to." for key in given]
    last = last if last in LAST else USUAL
    seconds = LAST[last][0]
    if at is not None and not now - seconds <= at <= now:
        return View(*_around(at, seconds), "", at), wrong
    return View(now - seconds, now, last, at), wrong


def _around(middle: float, seconds: float) -> tuple[float, float]:
    return middle - seconds / 2, middle + seconds / 2


def _instant(query: Mapping[str, str], key: str, wrong: list[str]) -> float | None:
    text = query.get(key, "")
    instant = instant_of(text.replace(" ", "+")) if text else None
    if instant is not None and 0.0 <= instant <= _LATEST:
        return instant
    if text:
        wrong.append(ignored(key, text, "an instant such as 2026-03-12T02:00:00Z"))
    return None


# -- the page --------------------------------------------------------------------------------------

MOST_CHANGES = 50
"""The most changes that are listed, the last of the view."""
_MOST_DISAGREEMENTS = 20


class ExplanationPanel(NamedTuple):
    """The panel of an instant: an explanation, or the reason without one."""

    at: float | None
    explanation: Explanation | None = None
    lines: Sequence[str] = ()
    near: float = 0.0
    """The time of the decision."""
    sentence: str = ""


def target_page(views: Views, request: Request, now: float) -> Page:
    """Make the page, or only the panel of the selected instant for `part=explanation`."""
    key = "/".join(request.path_params[part] for part in ("namespace", "kind", "name"))
    view, wrong = view_of(request.query_params, now)
    known = views.states.known_of(key)
    last = None if known is None else known.last
    if request.query_params.get("part") == "explanation":
        explained = _explained(views, key, view, now, last)
        return page("explanation.html", views, now, explained=explained, view=view)
    if known is None and not _is_recorded(views, key):
        sentence = f"No target {printable(key)} is configured, and none of that name is recorded."
        moved = key if views.config().other_shard(key) else None
        return not_found(views, now, sentence, key, moved)
    view = _from_record(views, key, view)
    changes, problem = _changes(views, key, view)
    return page(
        "target.html",
        views,
        now,
        key=key,
        known=known,
        state=State.UNKNOWN if known is None else known.state,
        state_word="not configured" if known is None else wording.state_word(known.state),
        sentence=_sentence(known),
        decision=None if last is None else last.decision,
        wrong=wrong,
        view=view,
        lasts=LAST,
        recorded=views.record is not None,
        changes=changes[:MOST_CHANGES],
        more=len(changes) > MOST_CHANGES,
        marks=_marks,
        verdict_words=VERDICT_WORDS,
        bar=bar_of,
        problem=problem,
        explained=_explained(views, key, view, now, last),
        in_force=None if known is None else in_force(known, views.config().flags, now),
        chart=f"/api/v1{path_of_target(key)}/chart",
        agreement=_beside(views, known, now),
    )


class AgreementPanel(NamedTuple):
    """The agreement of a target in shadow with its HPA; ``problem`` is set if it is unknown.

    ``readings`` are the target's, in the same words as the HPA's.
    """

    agreement: TargetAgreement | None
    readings: Sequence[str] = ()
    longest: Sequence[Disagreement] = ()
    """The longest disagreements, the last ones first."""
    problem: str = ""


def _beside(views: Views, known: TargetFacts | None, now: float) -> AgreementPanel | None:
    """Return a target's agreement in the last week; None if it is not in shadow."""
    if known is None or not known.in_shadow:
        return None
    try:
        (found,) = views.agreements([known], now - AGREEMENT_SECONDS, now)
    except RecordError as error:
        return AgreementPanel(None, problem=str(error))
    metrics = () if known.last is None else known.last.decision.metrics
    read = [metric_of(result.metric, result) for result in metrics]
    readings = [f"{reading.name} {reading.text.replace('/', ' of ')}" for reading in read]
    longest = sorted(
        found.disagreements[:_MOST_DISAGREEMENTS], key=lambda interval: -interval.begin
    )
    return AgreementPanel(found, readings, longest)


def _from_record(views: Views, key: str, view: View) -> View:
    """Return a live view without the time before a target's first record."""
    if view.live and views.record is not None:
        with suppress(RecordError):
            for first in views.record.samples(key, view.begin, view.end):
                return replace(view, begin=max(view.begin, min(first.time, view.end - _SHORTEST)))
    return view


def _is_recorded(views: Views, key: str) -> bool:
    with suppress(RecordError):
        return views.record is not None and key in views.record.targets()
    return False


def _sentence(known: TargetFacts | None) -> str:
    if known is None:
        return "It is no longer configured; this is what is recorded of it."
    return known.message if known.last is not None else f"It was {NOT_SYNCED_YET}."


def _explained(
    views: Views, key: str, view: View, now: float, last: SyncResult | None
) -> ExplanationPanel:
    """Explain the selected instant, or the present; without a record only the present."""
    record, at = views.record, now if view.at is None else view.at
    if record is None:
        sentence = "" if view.at is None else "Only the present can be explained."
        lines = explain(last).split("\n") if last is not None else ()
        near = now if last is None else last.decision.time
        return ExplanationPanel(None, None, lines, near, f"{NO_RECORD} {sentence}".strip())
    try:
        found = explanation_at(record, key, at)
        sentence = "" if found is not None else "Nothing is recorded of this instant."
        if found is None and record.lapses(key, at, at + 1.0):
            sentence = "Nothing was recorded at this instant: the daemon did not run, or lost it."
    except RecordError as error:
        return ExplanationPanel(view.at, sentence=f"The record cannot be read: {error}")
    return ExplanationPanel(view.at, found, sentence=sentence)


def _changes(views: Views, key: str, view: View) -> tuple[Sequence[Change], str]:
    """Return the changes in a view, the last first and one more than are shown; or a problem."""
    if views.record is None:
        return (), ""
    try:
        return views.record.changes([key], view.begin, view.end, limit=MOST_CHANGES + 1), ""
    except RecordError as error:
        return (), f"The record cannot be read: {error}"


def _marks(change: Change) -> list[str]:
    """Return the words for a change's marks, except its state's mark."""
    words = (word for mark, word in wording.MARK_WORDS.items() if mark in change.marks)
    return [word for word in words if word != wording.state_word(change.state)]


# -- the configuration in force --------------------------------------------------------------------

_LONGEST_QUERY = 20_000


class DisplayedQuery(NamedTuple):
    """A query: its use, its PromQL, and how its answer is read."""

    name: str
    detail: str
    promql: str = ""
    notes: Sequence[str] = ()


class ScheduleRow(NamedTuple):
    """A schedule with its next start, None if it is open, and end."""

    schedule: Schedule
    bounds: str
    opens: float | None
    closes: float


def in_force(known: TargetFacts, flags: Flags, now: float) -> Mapping[str, object]:
    """Return the settings in force, in the words of the page."""
    target = known.target
    spec, extensions = target.spec, target.extensions
    bounds = f"{spec.min_replicas} to {spec.max_replicas}"
    if known.last is not None:
        decision = known.last.decision
        bounds = f"{target_rules.min_replicas(decision)} to {target_rules.max_replicas(decision)}"
    return {
        "bounds": bounds,
        "sync_period": target.sync_period,
        "queries": tuple(_queries(target)),
        "facts": [*wording.behavior(spec.behavior, flags), *_extensions(extensions, now)],
        "schedules": planned(extensions.schedules, now),
    }


def _queries(target: Target) -> Iterator[DisplayedQuery]:
    activations = target.extensions.activations
    for index, metric in enumerate(target.spec.metrics):
        detail = f"{metric.type}, target {wording.target(metric)}"
        if target.extensions.idle is not None and index < len(activations):
            detail += f", active above {format_fine(activations[index])}"
        query = target.queries[index] if index < len(target.queries) else None
        yield _displayed_query(wording.metric_name(metric), detail, query)
    if target.min_replicas_query is not None:
        yield _displayed_query("minReplicas", "", target.min_replicas_query)
    if target.max_replicas_query is not None:
        yield _displayed_query("maxReplicas", "", target.max_replicas_query)
    if (hold := target.hold) is not None:
        selector = "" if hold.selector is None else f"series with {wording.selector(hold.selector)}"
        yield _displayed_query("nothing goes down", selector, hold.query)
    if target.deletion_cost is not None:
        yield _displayed_query("podDeletionCost", "lowest first", target.deletion_cost)


def _displayed_query(name: str, detail: str, query: Query | None) -> DisplayedQuery:
    if query is None:
        return DisplayedQuery(name, detail)
    notes = [f"asked of {wording.prometheus_server(query.server)}"] if query.server else []
    notes.append(f"a sample counts for {duration(query.max_age)}")
    notes += ["no series counts as 0"] if query.empty_is_zero else []
    notes += ["NaN counts as 0"] if query.nan_is_zero else []
    notes += ["a partial answer may scale down"] if query.use_partial else []
    return DisplayedQuery(name, detail, printable(query.promql, _LONGEST_QUERY), notes)


def _extensions(extensions: Extensions, now: float) -> Iterator[tuple[str, str]]:
    idle, fallback, pause = extensions.idle, extensions.fallback, extensions.pause
    if idle is not None:
        to = wording.counted(idle.replicas, "replica")
        first = f", not in its first {duration(idle.initially)}" if idle.initially else ""
        way = ", by the policies of scale-down" if idle.gradual else ""
        yield "Idle", f"to {to} once no metric was active for {duration(idle.after)}{first}{way}"
    if (rounding := extensions.replicas) is not None:
        yield "Replicas", f"rounded up to a multiple of {rounding.multiple_of}"
    if fallback is not None:
        after = wording.counted(fallback.failure_threshold, "failed sync")
        count = wording.counted(fallback.replicas, "replica")
        yield "Fallback", f"{count} after {after} ({fallback.behavior})"
    if pause is not None:
        at = "" if pause.replicas is None else f", at {wording.counted(pause.replicas, 'replica')}"
        yield "Paused", printable(f"{target_rules.pause(pause, now)}{at}", LONGEST_SENTENCE)
    for switch in fields(extensions):
        if getattr(extensions, switch.name) != switch.default:
            yield from switch.metadata.items()


def planned(schedules: Sequence[Schedule], now: float) -> tuple[ScheduleRow, ...]:
    """Return the schedules, open and next ones first."""
    found = [
        ScheduleRow(schedule, _bounds(schedule), *next_window(schedule, now))
        for schedule in schedules
    ]
    return tuple(sorted(found, key=lambda row: (row.opens or 0.0, row.closes)))


def _bounds(schedule: Schedule) -> str:
    bounds = (("minReplicas", schedule.min_replicas), ("maxReplicas", schedule.max_replicas))
    told = ", ".join(f"{name} {count}" for name, count in bounds if count is not None)
    return f"{told} gradually" if schedule.gradual else told
