"""The answer of each endpoint."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from autoscaler import __version__, clock
from autoscaler.agreement.sentences import AGREEMENT_SECONDS
from autoscaler.config.written import as_written
from autoscaler.core.classification import Mark, State
from autoscaler.core.extensions import Schedule
from autoscaler.core.text import printable, rfc3339, rfc3339_milli
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.rows import Change, RecordError
from autoscaler.rendering import answers, wording
from autoscaler.rendering.chart import Chart, chart_of
from autoscaler.rendering.instant import change_of, explanation_at
from autoscaler.rendering.record import defaults_of, metric_of, target_state, whole
from autoscaler.schedules import next_window
from autoscaler.telemetry.target_states import TargetFacts
from autoscaler.web.api.requests import (
    AgreementParameters,
    ChartParameters,
    ExplanationParameters,
    HistoryParameters,
    ProblemError,
    TargetsParameters,
    bad,
    place_after,
    token_of,
)
from autoscaler.web.site import RECORD_IS_OFF, Views


def configured(views: Views, key: str) -> TargetFacts:
    """Return a target of the configuration; raises ProblemError for an unknown key."""
    known = views.states.known_of(key)
    if known is not None:
        return known
    sentence = f"no target {printable(key)} is configured"
    if views.record is not None and key in views.record.targets():
        raise ProblemError(404, f"{sentence}; its record is kept")
    raise _unknown(views, key, sentence)


def record_of(views: Views, keys: Iterable[str] = ()) -> DirectoryRecord:
    """Return the record; raises ProblemError without one, and for unknown targets."""
    record = views.record
    if record is None:
        raise ProblemError(503, RECORD_IS_OFF)
    unknown = [key for key in keys if views.states.known_of(key) is None]
    recorded = frozenset(record.targets() if unknown else ())
    for key in unknown:
        if key not in recorded:
            sentence = f"no target {printable(key)} is configured, and none is recorded"
            raise _unknown(views, key, sentence)
    return record


def _unknown(views: Views, key: str, sentence: str) -> ProblemError:
    if other := views.config().other_shard(key):
        return ProblemError(404, f"{sentence}; {wording.has_target(*other)}")
    suggestions = wording.similar(key, [state.target.key for state in views.states.known()])
    advice = f"; did you mean {' or '.join(map(printable, suggestions))}?" if suggestions else ""
    return ProblemError(404, sentence + advice, suggestions=suggestions)


# -- targets --------------------------------------------------------------------------------------

_LIST = "targets"
_PART_BYTES = 64 << 10


def targets(query: TargetsParameters, views: Views, now: float) -> Iterator[bytes]:
    """Return the requested targets, in parts; raises ProblemError at once."""
    place = place_after(query.continue_, _LIST, int, str)

    def parts() -> Iterator[bytes]:
        not_ok = [component for component in views.health.components() if not component.ok]
        page, token = _page(views.states.known(), place, query)
        yield from target_list(page, now, not_ok, token, views.leader_states())

    return parts()


def _page(
    known: Sequence[TargetFacts], place: Sequence[int | str] | None, query: TargetsParameters
) -> tuple[list[TargetFacts], str | None]:
    """Return a page of targets, and the token of the next one, if any.

    It begins at the target of ``place``, or at its former position if it was removed.
    """
    words, states, begin = query.search.casefold().split(), frozenset(query.state), 0
    clusters = frozenset(query.cluster)
    if place is not None:
        numbers = (index for index, state in enumerate(known) if state.target.key == place[1])
        begin = next(numbers, int(place[0]))
    found = (
        (index, state)
        for index, state in enumerate(known[begin:], begin)
        if (not states or state.state in states)
        and (not clusters or state.target.cluster in clusters)
        and all(word in state.target.key.casefold() for word in words)
    )
    page = [state for _, state in islice(found, query.limit)]
    after = next(found, None)
    return page, None if after is None else token_of(_LIST, after[0], after[1].target.key)


def target_list(
    targets: Iterable[TargetFacts],
    now: float,
    components: Sequence[answers.ComponentState] = (),
    token: str | None = None,
    leaders: Sequence[answers.LeaderState] | None = None,
) -> Iterator[bytes]:
    """Yield an `answers.TargetList` in parts, one target per line, as of the Unix time ``now``.

    ``components`` are those that are not ok; ``token`` is for the next page, if any; ``leaders``
    needs leader election. Sentences are created here, not at every sync.
    """
    faulty = b", ".join(component.encoded() for component in components)
    part = bytearray()
    part += b'{"time": "%s", "components": [%s], ' % (rfc3339(now).encode(), faulty)
    if leaders is not None:
        part += b'"leaders": [%s], ' % b", ".join(leader.encoded() for leader in leaders)
    part += b'"targets": ['
    separator = b"\n"
    for target in targets:
        part += separator + state_of(target).encoded()
        separator = b",\n"
        if len(part) >= _PART_BYTES:
            yield bytes(part)
            part.clear()
    yield bytes(part) + b'\n], "continue": %s}\n' % json.dumps(token).encode()


def state_of(known: TargetFacts) -> answers.TargetState:
    """Return the state of a target."""
    target, last = known.target, known.last
    if last is not None:
        return target_state(last, known.since, known.message if known.finding else "")
    return answers.TargetState(
        target=wording.target_key(target),
        **wording.key_parts(target.key)._asdict(),
        object_name=target.object_name,
        state=State.UNKNOWN,
        since=None,
        last_sync=None,
        message=known.message,
        min_replicas=target.spec.min_replicas,
        max_replicas=target.spec.max_replicas,
        current_replicas=None,
        desired_replicas=None,
        metrics=tuple(metric_of(metric, None) for metric in target.spec.metrics),
        mode=target.extensions.mode,
    )


def one_target(key: str, views: Views, now: float) -> answers.TargetDetail:
    """Return a target's state, configuration and schedules."""
    known, flags = configured(views, key), views.config().flags
    return answers.TargetDetail(
        state=state_of(known),
        configuration=as_written(known.target),
        defaults=defaults_of(flags),
        schedules=tuple(_schedule(schedule, now) for schedule in known.target.extensions.schedules),
    )


def _schedule(schedule: Schedule, now: float) -> answers.Schedule:
    opens, closes = next_window(schedule, now)
    return answers.Schedule(
        name=schedule.name,
        open=opens is None,
        opens=opens,
        closes=closes,
        min_replicas=schedule.min_replicas,
        max_replicas=schedule.max_replicas,
    )


# -- the daemon -----------------------------------------------------------------------------------


def fleet(views: Views, now: float) -> answers.FleetTotals:
    """Return the sums over all targets."""
    known = views.states.known()
    states = Counter(target.state.value for target in known)
    decisions = [state.last.decision for state in known if state.last is not None]
    counted = [decision for decision in decisions if decision.current is not None]
    return answers.FleetTotals(
        time=now,
        targets=len(known),
        states={state.value: states[state.value] for state in State},
        failing=states[State.FAILING],
        at_maximum=sum(Mark.AT_MAXIMUM in target.marks for target in known),
        replicas=answers.Replicas(
            targets=len(counted),
            current=sum(each.current or 0 for each in counted),
            desired=sum(each.desired for each in counted),
            minimum=sum(each.min_replicas for each in counted),
            maximum=sum(each.max_replicas for each in counted),
        ),
        ready=views.health.ready,
        leads=views.leads(),
        leaders=views.leader_states(),
    )


def health(views: Views, _: float) -> answers.DaemonHealth:
    """Return the state of the daemon itself."""
    return answers.DaemonHealth(
        version=__version__,
        ready=views.health.ready,
        stalled=views.health.stalled(),
        leads=views.leads(),
        leaders=views.leader_states(),
        shard=views.config().shard,
        components=views.health.components(),
        breakers=tuple(
            answers.ServerBreaker(
                server=wording.server_label(breaker.server),
                tripped=breaker.until is not None,
                until=breaker.until,
                held=breaker.down,
                targets=breaker.of,
            )
            for breaker in views.breakers()
        ),
        record=views.record_state(),
    )


# -- the record -----------------------------------------------------------------------------------


MOST_BYTES, MOST_SECONDS = 8 << 20, 3.0
"""Limits at which a page of decisions ends early."""


def changes(query: HistoryParameters, views: Views, now: float) -> Sequence[bytes]:
    """Return a page of changes."""
    record = record_of(views, query.target)
    rows = _rows(record, "changes", query, now)
    page = rows[: query.limit]
    # Include lapses between the last one and the first of the next page.
    lapses = record.lapses(None, rows[-1].time, rows[0].time) if rows else ()
    return _listed(
        "changes",
        (change_of(row, record).encoded() for row in page),
        token_of("changes", page[-1].id) if len(rows) > len(page) else None,
        lapses=[answers.Lapse.model_validate(row).document() for row in lapses],
    )


def decisions(query: HistoryParameters, views: Views, now: float) -> Sequence[bytes]:
    """Return a page of whole decisions."""
    record = record_of(views, query.target)
    rows = _rows(record, "decisions", query, now)
    texts = list(_within_bounds(record, rows[: query.limit]))
    token = token_of("decisions", rows[len(texts) - 1].id) if len(rows) > len(texts) else None
    return _listed("decisions", texts, token)


def agreement(query: AgreementParameters, views: Views, now: float) -> answers.AgreementList:
    """Return the agreement of targets with their HPAs; raises ProblemError for an unknown one."""
    known = [configured(views, key) for key in query.target] or views.states.known()
    in_shadow = [state for state in views.states.known() if state.in_shadow]
    shown = [state for state in known if query.target or state.in_shadow]
    since = now - AGREEMENT_SECONDS if query.since is None else query.since
    return answers.AgreementList(
        time=now,
        live=len(views.states.known()) - len(in_shadow),
        shadow=len(in_shadow),
        targets=views.agreements(shown, since, now),
    )


def _listed(
    name: str, entries: Iterable[bytes], token: str | None, **more: object
) -> Sequence[bytes]:
    """Return a page of entries (JSON, one per line) as text; ``more`` follows them."""
    rest = json.dumps(more | {"continue": token})[1:]
    return b'{"%s": [\n' % name.encode(), b",\n".join(entries), b"\n], %s\n" % rest.encode()


def period(begin: float | None, end: float | None, now: float, usual: float) -> tuple[float, float]:
    """Return the requested time; by default the last ``usual`` seconds."""
    end = now if end is None else end
    begin = max(end - usual, 0.0) if begin is None else begin
    if begin >= end:
        raise bad(("from", rfc3339_milli(begin), f"must be before {rfc3339_milli(end)}"))
    return begin, end


def _rows(
    record: DirectoryRecord, of: str, query: HistoryParameters, now: float
) -> Sequence[Change]:
    """Return the changes of a page, and one more if there is a next page."""
    place = place_after(query.continue_, of, int)
    before = None if place is None else int(place[0])
    begin, end = period(query.from_, query.to, now, now)
    targets = query.target or None
    return record.changes(targets, begin, end, limit=query.limit + 1, before=before)


def _within_bounds(record: DirectoryRecord, rows: Sequence[Change]) -> Iterator[bytes]:
    """Yield decisions as JSON until they are too large or too slow, but at least the first."""
    until, size = clock.monotonic() + MOST_SECONDS, 0
    for row in rows:
        if size > MOST_BYTES or (size and clock.monotonic() > until):
            return
        text = _decision(record, row).encoded()
        size += len(text)
        yield text


def _decision(record: DirectoryRecord, change: Change) -> answers.RecordedDecision:
    decision, missing = None, change.message if Mark.REMOVED in change.marks else None
    if missing is None:
        try:
            decision = whole(record.entry(change))
        except RecordError as error:
            missing = str(error)
    return answers.RecordedDecision(
        id=change.id, target=change.target, time=change.time, decision=decision, missing=missing
    )


_USUAL_SECONDS = 3600.0


def chart(key: str, query: ChartParameters, views: Views, now: float) -> Chart:
    """Return a target's chart."""
    record = record_of(views, [key])
    begin, end = period(query.from_, query.to, now, _USUAL_SECONDS)
    drawn = chart_of(record, key, begin, end, now=now, most_points=query.points)
    if drawn is None:
        raise _nothing(key, f"from {rfc3339_milli(begin)} to {rfc3339_milli(end)}")
    return drawn


def explanation(
    key: str, query: ExplanationParameters, views: Views, now: float
) -> answers.Explanation:
    """Return the explanation of an instant."""
    record = record_of(views, [key])
    at = now if query.at is None else query.at
    if query.last_change:
        last = record.last_count_change(key, at)
        if last is None:
            raise ProblemError(404, f"no change of the count of {printable(key)} is recorded")
        at = last.time
    explained = explanation_at(record, key, at)
    if explained is None:
        raise _nothing(key, f"at {rfc3339_milli(at)}")
    return explained


def _nothing(key: str, when: str) -> ProblemError:
    return ProblemError(404, f"nothing is recorded of {printable(key)} {when}")
