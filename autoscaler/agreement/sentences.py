"""The agreement of a target in shadow with its HPA, as sentences and as an answer of the API."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from autoscaler.config.comparison import FieldChange
from autoscaler.core.observation import Hpa
from autoscaler.core.text import duration
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.agreement import (
    Agreement,
    AgreementInterval,
    DifferingReading,
    RecordedAgreement,
    Totals,
)
from autoscaler.persistence.record.rows import EmptyRecordError
from autoscaler.rendering import answers, wording
from autoscaler.rendering.hpa import hpa_answer, undecided_text

READY, EARLY, DIFFERS, NOT_COMPARED = "ready", "early", "differs", "notCompared"
"""The verdicts on a target before `adopt`."""
_LEAST_SHARE = 0.001
READY_SHARE = 0.95
"""The least agreement of a target that is ready. Equal autoscalers whose load changes their count
at every sync may differ for more than one percent of the time, since each reads at its own
instants."""
READY_SECONDS = 3600.0
"""How long a target must have been compared before it is ready, in seconds."""
AGREEMENT_SECONDS = 7 * 86400.0
"""How much of the past is shown by default, in seconds."""
_MOST_SHOWN = 100

AGREEMENT_WORDS: Mapping[str, str] = {
    Agreement.EQUAL: "the same count",
    Agreement.WITHIN_PERIOD: "the same within one period",
    Agreement.DIFFERENT: "different",
    Agreement.NOT_COMPARED: "not compared",
}
_AGREEING = (Agreement.EQUAL, Agreement.WITHIN_PERIOD)
_COMPARED = (*_AGREEING, Agreement.DIFFERENT)


# -- one difference ------------------------------------------------------------------------------


def disagreement(stretch: AgreementInterval) -> answers.Disagreement:
    """Return an interval as an answer."""
    fields = other_fields(stretch.fields)
    texts = [*map(field_text, fields), *map(_reading_text, stretch.readings)]
    return answers.Disagreement(
        begin=stretch.begin,
        end=stretch.end,
        ours=stretch.ours,
        theirs=stretch.theirs,
        message="; ".join(texts) or "no field and no reading differs",
        fields=fields,
        readings=tuple(map(_reading, stretch.readings)),
    )


def other_fields(changes: Sequence[FieldChange]) -> tuple[answers.FieldDifference, ...]:
    """Return the fields that differ, as answers."""
    return tuple(
        answers.FieldDifference(
            field=change.path, ours=change.before or "not set", theirs=change.after or "not set"
        )
        for change in changes
    )


def field_text(field: answers.FieldDifference) -> str:
    """Return the text for a field that differs: `maxReplicas is 50 here and 10 there`."""
    return f"{field.field} is {field.ours} here and {field.theirs} there"


def _value_text(reading: DifferingReading, value: int) -> str:
    return f"{value}%" if reading.percent else f"{value / 1000:g}"


def _difference(reading: DifferingReading) -> float | None:
    return (
        round(100.0 * (reading.theirs - reading.ours) / reading.ours, 1) if reading.ours else None
    )


def _reading_text(reading: DifferingReading) -> str:
    ours, theirs = _value_text(reading, reading.ours), _value_text(reading, reading.theirs)
    difference = _difference(reading)
    by = "" if difference is None else f" ({difference:+g} %)"
    return f"{reading.metric} is {ours} here and {theirs} there{by}"


def _reading(reading: DifferingReading) -> answers.ReadingDifference:
    return answers.ReadingDifference(
        metric=reading.metric,
        ours=_value_text(reading, reading.ours),
        theirs=_value_text(reading, reading.theirs),
        difference_percent=_difference(reading),
    )


# -- a target ------------------------------------------------------------------------------------


def kept_of(
    record: DirectoryRecord | None,
    targets: Collection[str] | None,
    since: float,
    now: float,
    limit: int = _MOST_SHOWN,
) -> Mapping[str, RecordedAgreement]:
    """Return the agreement of some or all targets since a Unix time; empty without a record.

    For each target at most ``limit`` intervals in which the counts differ; without a limit the
    totals.
    """
    try:
        return {} if record is None else record.agreement(targets, since, now, limit)
    except EmptyRecordError:
        return {}


def agreement_answer(
    target: str,
    kept: RecordedAgreement | None,
    hpa: Hpa | None = None,
    mode: str = "shadow",
    differences: Sequence[FieldChange] = (),
    why: str = "",
) -> answers.TargetAgreement:
    """Return the answer about a target from its recorded agreement and its current HPA.

    ``kept`` is None without a record; ``why`` is the reason if nothing can be recorded.
    """
    kept = kept or RecordedAgreement({})
    totals = kept.totals
    compared, share = agreement_share(totals)
    compared_last, share_last = agreement_share(totals, last_day=True)
    equal = totals[Agreement.EQUAL].seconds if Agreement.EQUAL in totals else 0.0
    return answers.TargetAgreement(
        target=target,
        since=min((total.begin for total in totals.values()), default=None),
        compared_seconds=round(compared, 3),
        agreement=share,
        equal=None if share is None else round(equal / compared, 6),
        last_day=answers.LastDay(compared_seconds=round(compared_last, 3), agreement=share_last),
        times=tuple(_times(totals, compared)),
        disagreements=tuple(map(disagreement, kept.different)),
        not_compared=tuple(
            answers.UncomparedTime(reason=reason, seconds=round(seconds, 3))
            for reason, seconds in kept.not_compared.items()
        ),
        differences=other_fields(differences),
        hpa=None if hpa is None else hpa_answer(hpa),
        mode=mode,
        verdict=verdict_on(totals),
        message=_message(target, kept, hpa, why),
    )


def moved(live: int, shadow: int) -> str:
    """Return the progress of a migration: `3 of 10 targets moved, 7 in shadow`."""
    return f"{live} of {wording.counted(live + shadow, 'target')} moved, {shadow} in shadow"


def agreement_share(totals: Totals, *, last_day: bool = False) -> tuple[float, float | None]:
    """Return the seconds that were compared, and the share of agreement; None if none were."""
    seconds = {
        kind: total.last_day if last_day else total.seconds for kind, total in totals.items()
    }
    compared = sum(seconds.get(kind, 0.0) for kind in _COMPARED)
    if compared <= 0:
        return 0.0, None
    return compared, round(sum(seconds.get(kind, 0.0) for kind in _AGREEING) / compared, 6)


def verdict_on(totals: Totals) -> str:
    """Return whether a target may be adopted, by all of its time and by the last day."""
    compared, share = agreement_share(totals)
    _, last = agreement_share(totals, last_day=True)
    if share is None or last is None:
        return NOT_COMPARED
    if min(share, last) < READY_SHARE:
        return DIFFERS
    return READY if compared >= READY_SECONDS else EARLY


def _times(totals: Totals, compared: float) -> Iterator[answers.AgreementTime]:
    whole = sum(total.seconds for total in totals.values())
    for kind in Agreement:
        total = totals.get(kind)
        if total is not None:
            of = whole if kind is Agreement.NOT_COMPARED else compared
            yield answers.AgreementTime(
                kind=kind.value,
                seconds=round(total.seconds, 3),
                share=round(total.seconds / of, 6) if of > 0 else 0.0,
                stretches=total.stretches,
                longest_seconds=round(total.longest, 3),
            )


def percent(share: float) -> str:
    """Format a share in percent, rounded down so that only full agreement is 100 %: `99.9 %`."""
    if 0 < share < _LEAST_SHARE:
        return f"less than {100 * _LEAST_SHARE:g} %"
    return f"{int(share * 1000) / 10:g} %"


def _message(target: str, kept: RecordedAgreement, hpa: Hpa | None, why: str) -> str:
    """Return the reason for the verdict."""
    compared, share = agreement_share(kept.totals)
    _, last = agreement_share(kept.totals, last_day=True)
    if share is None:
        return f"nothing has been compared: {why or _why_nothing(kept, hpa)}"
    agrees = f"it agrees with the HPA in {percent(share)} of {duration(compared)}"
    if last is None:
        return f"{agrees}; nothing was compared in the last 24 hours{_reason(kept)}"
    if last < READY_SHARE <= share:
        agrees += f", and in {percent(last)} of the last 24 hours"
    verdict = verdict_on(kept.totals)
    if verdict == EARLY:
        left = duration(READY_SECONDS - compared)
        return f"{agrees} so far; compare for {left} more before you rely on that"
    rest = f"; the longest difference: {_longest(kept)}" if kept.different else ""
    if verdict == DIFFERS:
        return f"{agrees}{rest}"
    return f"{agrees}{rest}; ready: autoscaler adopt {target}"


def _why_nothing(kept: RecordedAgreement, hpa: Hpa | None) -> str:
    if hpa is not None and hpa.status is None:
        return undecided_text(hpa)
    if kept.not_compared:
        return next(iter(kept.not_compared))
    if hpa is not None:
        return "the comparison has just begun"
    return "no HorizontalPodAutoscaler of its object was seen, or more than one"


def _reason(kept: RecordedAgreement) -> str:
    return f": {next(iter(kept.not_compared))}" if kept.not_compared else ""


def _longest(kept: RecordedAgreement) -> str:
    interval = disagreement(kept.different[0])
    lasted = duration(interval.end - interval.begin)
    return f"{interval.ours} here, {interval.theirs} there for {lasted}: {interval.message}"
