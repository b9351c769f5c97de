"""How a target in shadow agrees with the HPA beside it, in words and as an answer."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from autoscaler.agreement.causes import Deviation
from autoscaler.agreement.comparison import Agreement, Stretch
from autoscaler.agreement.database import (
    DirectoryAgreement,
    KeptAgreement,
    NothingComparedError,
    Sum,
)
from autoscaler.agreement.readings import DifferingReading
from autoscaler.agreement.spec_differences import FieldDifference
from autoscaler.core.observation import Hpa, undecided_text
from autoscaler.core.text import duration, rfc3339
from autoscaler.rendering import answers, wording
from autoscaler.rendering.hpa import hpa_answer

READY, EARLY, DIFFERS, NOT_COMPARED = "ready", "early", "differs", "notCompared"
"""The verdicts on a target that is to go over."""
_LEAST_SHARE = 0.001
READY_SHARE = 0.99
READY_SECONDS = 3600.0
"""So long a target must have been compared, and so much of it in agreement, before it goes over."""
AGREEMENT_SECONDS = 7 * 86400.0
"""How much of the past is told unless it is asked otherwise."""
_MOST_TOLD = 100

AGREEMENT_WORDS = {
    Agreement.EQUAL: "the same count",
    Agreement.TIMING: "the same within one period",
    Agreement.SAMPLING: "a reading of another instant is held",
    Agreement.READING: "another reading",
    Agreement.CONFIGURATION: "a different configuration",
    Agreement.DEVIATION: "a difference on purpose",
    Agreement.UNKNOWN: "not known",
    Agreement.NOT_COMPARED: "not compared",
}
DEVIATION_WORDS = {
    Deviation.AFTER_GAP: "after a gap in a metric nothing goes down here until its range is full",
    Deviation.AFTER_ABSENCE: "this target was not decided here for a whole window yet",
    Deviation.INCOMPLETE: "a reading here is incomplete, and scales nothing down",
    Deviation.NEGATIVE: "a negative sum counts as 0 here, and as infinite load there",
    Deviation.ZERO: "the rules at zero replicas differ",
    Deviation.FORGOTTEN: "the HPA holds nothing of what was recommended before: its controller was "
    "restarted, or its downscale stabilization is shorter",
}
_AGREEING = (Agreement.EQUAL, Agreement.TIMING)


# -- one disagreement ----------------------------------------------------------------------------


def disagreement(stretch: Stretch) -> answers.Disagreement:
    """Return a stretch as an answer."""
    return answers.Disagreement(
        begin=stretch.begin,
        end=stretch.end,
        cause=stretch.agreement.value,
        ours=stretch.ours,
        theirs=stretch.theirs,
        message=cause_text(stretch),
        fields=_fields(stretch.fields),
        readings=tuple(_reading(one) for one in stretch.readings),
        deviation=None if stretch.deviation is None else stretch.deviation.value,
        remembered_since=stretch.remembered,
    )


def _fields(differences: Sequence[FieldDifference]) -> tuple[answers.OtherField, ...]:
    return tuple(
        answers.OtherField(field=one.field, ours=one.ours, theirs=one.theirs) for one in differences
    )


def cause_text(stretch: Stretch) -> str:
    """Say why both want other counts: `maxReplicas is 50 here and 10 there`."""
    told = [*map(field_text, stretch.fields), *map(_reading_text, stretch.readings)]
    if stretch.deviation is not None:
        told.append(DEVIATION_WORDS[stretch.deviation])
    said = "; ".join(told) or stretch.why or AGREEMENT_WORDS[stretch.agreement]
    if stretch.remembered is not None:
        said = f"what was recommended at {rfc3339(stretch.remembered)} is still held: {said}"
    return said


def field_text(one: FieldDifference | answers.OtherField) -> str:
    """Say how a field, or a flag, differs: `maxReplicas is 50 here and 10 there`."""
    if one.field.startswith("--"):
        return f"the HPA acts as if {one.field} were {one.theirs} than {one.ours}"
    return f"{one.field} is {one.ours} here and {one.theirs} there"


def _value_text(one: DifferingReading, value: int | None) -> str | None:
    if value is None:
        return None
    return f"{value}%" if one.percent else f"{value / 1000:g}"


def _difference(one: DifferingReading) -> float | None:
    if one.ours is None or one.theirs is None or one.ours == 0:
        return None
    return round(100.0 * (one.theirs - one.ours) / one.ours, 1)


def _reading_text(one: DifferingReading) -> str:
    ours, theirs = _value_text(one, one.ours), _value_text(one, one.theirs)
    if theirs is None:
        return f"{one.metric} has no value there, and {ours} here"
    if ours is None:
        return f"{one.metric} is {theirs} there, and has no value here: {one.failure}"
    difference, lag = _difference(one), ""
    by = "" if difference is None else f" ({difference:+g} %)"
    if one.lag is not None and one.lag >= 1:
        lag = f", as ours was {duration(one.lag)} before"
    return f"{one.metric} is {ours} here and {theirs} there{by}{lag}"


def _reading(one: DifferingReading) -> answers.OtherReading:
    return answers.OtherReading(
        metric=one.metric,
        ours=_value_text(one, one.ours),
        theirs=_value_text(one, one.theirs),
        difference_percent=_difference(one),
        lag_seconds=one.lag,
        failure=one.failure,
    )


# -- a target ------------------------------------------------------------------------------------


def kept_of(
    reader: DirectoryAgreement | None, targets: Collection[str], since: float
) -> Mapping[str, KeptAgreement]:
    """Return what is kept of targets since a Unix time; nothing where nothing is compared yet."""
    if reader is None:
        return {}
    try:
        return reader.of(targets, since, _MOST_TOLD)
    except NothingComparedError:
        return {}


def times_of(
    reader: DirectoryAgreement | None, since: float
) -> Mapping[str, Mapping[Agreement, float]]:
    """Return for how many seconds targets agreed how since a Unix time; nothing likewise."""
    if reader is None:
        return {}
    try:
        return reader.times(since)
    except NothingComparedError:
        return {}


def agreement_answer(
    target: str,
    kept: KeptAgreement | None,
    hpa: Hpa | None = None,
    free: int | None = None,
    mode: str = "shadow",
    differences: Sequence[FieldDifference] = (),
) -> answers.TargetAgreement:
    """Return how a target agrees: what is ``kept`` of it, the HPA now, and the free run's count.

    ``differences`` are the fields that differ now.
    """
    sums: Mapping[Agreement, Sum] = {} if kept is None else kept.sums
    seconds = {kind: one.seconds for kind, one in sums.items()}
    compared, share = agreement_share(seconds)
    verdict = verdict_on(seconds)
    counted = [one for kind, one in sums.items() if kind is not Agreement.NOT_COMPARED]
    stretches = () if kept is None else kept.stretches
    return answers.TargetAgreement(
        target=target,
        since=None if kept is None else kept.begin,
        compared_seconds=round(compared, 3),
        agreement=share,
        equal=None if share is None else round(seconds.get(Agreement.EQUAL, 0.0) / compared, 6),
        times=tuple(_times(sums, compared)),
        disagreements=tuple(disagreement(one) for one in stretches),
        differences=_fields(differences),
        other_readings=() if kept is None else tuple(_other_readings(kept, compared)),
        mean_replicas=_mean(sum(one.replicas for one in counted), compared),
        mean_free_replicas=_mean(sum(one.free for one in counted), compared),
        free_replicas=free,
        hpa=None if hpa is None else hpa_answer(hpa),
        mode=mode,
        verdict=verdict,
        message=_message(target, kept, verdict, compared, share, hpa),
    )


def _other_readings(kept: KeptAgreement, compared: float) -> Iterator[answers.OtherReadings]:
    """Yield the metrics that were read otherwise though both wanted the same count."""
    seconds: Counter[str] = Counter()
    worst: dict[str, DifferingReading] = {}
    for stretch in kept.other_readings:
        for one in stretch.readings:
            seconds[one.metric] += round(stretch.end - stretch.begin)
            known = worst.get(one.metric)
            if known is None or abs(_difference(one) or 0) > abs(_difference(known) or 0):
                worst[one.metric] = one
    for metric, total in seconds.most_common():
        share = round(min(1.0, total / compared), 6) if compared else 0.0
        yield answers.OtherReadings(
            metric=metric, seconds=total, share=share, message=_reading_text(worst[metric])
        )


def moved(live: int, shadow: int) -> str:
    """Say how far a move of many has come: `3 of 10 targets moved, 7 in shadow`."""
    return f"{live} of {wording.counted(live + shadow, 'target')} moved, {shadow} in shadow"


def agreement_share(seconds: Mapping[Agreement, float]) -> tuple[float, float | None]:
    """Return how many seconds were compared, and the share of agreement; None where none were."""
    compared = sum(time for kind, time in seconds.items() if kind is not Agreement.NOT_COMPARED)
    if compared <= 0:
        return 0.0, None
    return compared, round(sum(seconds.get(kind, 0.0) for kind in _AGREEING) / compared, 6)


def verdict_on(seconds: Mapping[Agreement, float]) -> str:
    """Return whether a target may go over that has agreed how for so many seconds."""
    compared, share = agreement_share(seconds)
    if share is None:
        return NOT_COMPARED
    if share < READY_SHARE or Agreement.UNKNOWN in seconds:
        return DIFFERS
    return READY if compared >= READY_SECONDS else EARLY


def _mean(total: float, seconds: float) -> float | None:
    return round(total / seconds, 3) if seconds > 0 else None


def _times(sums: Mapping[Agreement, Sum], compared: float) -> Iterator[answers.AgreementTime]:
    total = sum(one.seconds for one in sums.values())
    for kind in Agreement:
        one = sums.get(kind)
        if one is not None:
            of = total if kind is Agreement.NOT_COMPARED else compared
            yield answers.AgreementTime(
                kind=kind.value,
                seconds=round(one.seconds, 3),
                share=round(one.seconds / of, 6) if of > 0 else 0.0,
                stretches=one.stretches,
                longest_seconds=round(one.longest, 3),
            )


def percent(share: float) -> str:
    """Write a share in percent, rounded down so that 100 % is all of it: `99.9 %`."""
    if 0 < share < _LEAST_SHARE:
        return f"less than {100 * _LEAST_SHARE:g} %"
    return f"{int(share * 1000) / 10:g} %"


def _message(
    target: str,
    kept: KeptAgreement | None,
    verdict: str,
    compared: float,
    share: float | None,
    hpa: Hpa | None,
) -> str:
    """Say why it may go over, or why not."""
    if kept is None or share is None:
        if hpa is not None and hpa.status is None:
            return f"nothing has been compared: {undecided_text(hpa)}"
        if kept is None and hpa is not None:
            return "the comparison has just begun: two syncs are needed"
        why = "no HorizontalPodAutoscaler of its object was seen, or more than one"
        return f"nothing has been compared: {why}"
    agrees = f"it agrees with the HPA in {percent(share)} of {duration(compared)}"
    if verdict == DIFFERS:
        return f"{agrees}; else {_largest(kept, compared)}"
    if verdict == EARLY:
        left = duration(READY_SECONDS - compared)
        return f"{agrees} so far; compare for {left} more before you rely on that"
    rest = f"; else {_largest(kept, compared)}" if share < 1 else ""
    return f"{agrees}{rest}; nothing stands against going over: autoscaler adopt {target}"


def _largest(kept: KeptAgreement, compared: float) -> str:
    """Say what most of the disagreement comes from, with its largest stretch."""
    causes = [kind for kind in kept.sums if kind not in {*_AGREEING, Agreement.NOT_COMPARED}]
    kind = max(causes, key=lambda one: kept.sums[one].seconds)
    said = f"{AGREEMENT_WORDS[kind]} in {percent(kept.sums[kind].seconds / compared)}"
    told = [one for one in kept.stretches if one.agreement is kind]
    if not told or kind is Agreement.UNKNOWN:
        return said
    return f"{said}: {cause_text(max(told, key=lambda one: one.end - one.begin))}"
