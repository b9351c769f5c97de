"""What happens to a history when the clock is set."""

from dataclasses import replace

from autoscaler.core.history import (
    Condition,
    Contention,
    History,
    PendingWrite,
    ReadingGap,
    Recommendation,
    ScaleEvent,
    shifted,
)
from autoscaler.core.observation import ConditionStatus


def at(time: float) -> History:
    """Return a history with every field, in which all happened at one time."""
    return History(
        (Recommendation(3, time, first=True), Recommendation(-1, time)),
        (ScaleEvent(1, time, earliest=time), ScaleEvent(2, time, outdated=True)),
        (ScaleEvent(3, time, earliest=time),),
        (Condition("AbleToScale", ConditionStatus.FALSE, "reason", "message", time),),
        7,
        time,
        True,  # noqa: FBT003 - zeroed_by_us
        PendingWrite(7, 8, time, "12"),
        Contention(7, -1, (time, time), 17),
        unobserved=True,
        gaps=(
            ReadingGap("a", "b", time, time, first=True, losses=((time, 5.0), (time, 6.0))),
            ReadingGap("c", until=time),
        ),
        unseen=time,
        controller="an HPA",
    )


def test_every_instant_moves_and_nothing_else() -> None:
    """By the same seconds; a loss lasts as long as before."""
    assert shifted(at(1000.0), 60.5) == at(1060.5)
    assert [one.first for one in shifted(at(1.0), 2.0).recommendations or ()] == [True, False]


def test_what_never_happened_does_not_move() -> None:
    """Nor does what is empty."""
    assert shifted(History(), 60.0) == History()
    assert shifted(replace(at(1.0), recommendations=None), 2.0).recommendations is None
