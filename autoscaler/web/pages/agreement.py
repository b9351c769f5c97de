"""The page of targets in shadow and their agreement with HPAs, the worst first."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from starlette.requests import Request

from autoscaler.agreement.sentences import (
    DIFFERS,
    EARLY,
    NOT_COMPARED,
    READY,
    agreement_share,
    kept_of,
    moved,
    verdict_on,
)
from autoscaler.persistence.record.agreement import Agreement, Totals
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.answers import AgreementTime, TargetAgreement
from autoscaler.telemetry.target_states import TargetFacts
from autoscaler.web.answering import Page
from autoscaler.web.pages.frame import ListChoice, page, part_of
from autoscaler.web.site import Views

VERDICT_WORDS = {
    DIFFERS: "differs",
    NOT_COMPARED: "not compared",
    EARLY: "agrees so far",
    READY: "ready to go over",
}
"""The words of the pages for each verdict, the worst first."""
_RANKS = {verdict: rank for rank, verdict in enumerate(VERDICT_WORDS)}
LAST = {"24h": (86400.0, "24 h"), "7d": (7 * 86400.0, "7 d"), "14d": (14 * 86400.0, "14 d")}
"""The times up to now by their parameter: seconds and words."""
USUAL = "7d"


@dataclass(frozen=True, slots=True)
class AgreementChoice(ListChoice):
    """The selected targets, and the time."""

    path: ClassVar[str] = "/agreement"
    verdict: str = ""
    last: str = USUAL


_RIGHT: Mapping[str, tuple[Container[str], str]] = {
    "verdict": (VERDICT_WORDS, f"one of {', '.join(VERDICT_WORDS)}"),
    "last": (LAST, f"one of {', '.join(LAST)}"),
}


class Time(NamedTuple):
    """A part of the bar of all times: its kind, and its begin and length in percent."""

    kind: str
    share: float
    begin: float
    width: float


def bar_of(times: Sequence[AgreementTime]) -> Sequence[Time]:
    """Return the parts of a bar of all times together."""
    return tuple(_parts(times))


def _parts(times: Sequence[AgreementTime]) -> Iterator[Time]:
    total, begin = sum(interval.seconds for interval in times), 0.0
    for interval in times:
        width = 100 * interval.seconds / total if total > 0 else 0.0
        yield Time(interval.kind, interval.share, round(begin, 2), round(width, 2))
        begin += width


def agreement_page(views: Views, request: Request, now: float) -> Page:
    """Make the page."""
    choice, wrong = AgreementChoice.read(request.query_params, _RIGHT)
    known, since = views.states.known(), now - LAST[choice.last][0]
    rows = [row for row in known if row.in_shadow]
    found = [row for row in rows if choice.finds(row.target.key)]
    shown: Sequence[tuple[TargetFacts, TargetAgreement]] = ()
    totals, problem = _totals(views, since, now)
    verdicts = {row.target.key: verdict_on(totals.get(row.target.key, {})) for row in found}
    chosen = [row for row in found if choice.verdict in {"", verdicts[row.target.key]}]
    chosen.sort(key=lambda row: _need(row.target.key, verdicts, totals))
    part = part_of(chosen, choice.page)
    try:
        shown = tuple(zip(part.rows, views.agreements(part.rows, since, now), strict=True))
    except RecordError as error:
        problem = str(error)
    return page(
        "agreement.html",
        views,
        now,
        current="agreement",
        choice=choice,
        wrong=wrong,
        problem=problem,
        words=VERDICT_WORDS,
        counts=Counter(verdicts.values()),
        moved=moved(len(known) - len(rows), len(rows)),
        total=len(rows),
        found=len(found),
        chosen=len(chosen),
        part=part,
        shown=shown,
        lasts=LAST,
        kinds=[kind for kind in Agreement if any(_has(agreement, kind) for _, agreement in shown)],
        bar=bar_of,
    )


def _totals(views: Views, since: float, now: float) -> tuple[Mapping[str, Totals], str]:
    """Return the totals of all targets; if they cannot be read, the reason."""
    try:
        kept = kept_of(views.record, None, since, now, limit=0)
    except RecordError as error:
        return {}, str(error)
    return {key: agreement.totals for key, agreement in kept.items()}, ""


def _need(
    key: str, verdicts: Mapping[str, str], totals: Mapping[str, Totals]
) -> tuple[int, float, str]:
    """Return the sort key of a target: its verdict, then its agreement."""
    _, share = agreement_share(totals.get(key, {}))
    return _RANKS[verdicts[key]], share or 0.0, key


def _has(agreement: TargetAgreement, kind: Agreement) -> bool:
    return any(time.kind == kind for time in agreement.times)
