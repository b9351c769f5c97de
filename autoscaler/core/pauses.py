"""The pause in force: that of the configuration, or of annotations of the workload (8.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.core.decision import Outcome, Reconciled, Zone
from autoscaler.core.extensions import Pause, PauseMode
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.spec import ConditionStatus
from autoscaler.core.status import (
    SCALE_DOWN_PAUSED,
    SCALE_UP_PAUSED,
    SCALING_ACTIVE,
    SCALING_PAUSED,
    StatusRecorder,
)
from autoscaler.core.text import instant_of, printable

INVALID_ANNOTATION = "InvalidAnnotation"
PAUSED = "autoscaler/paused"
PAUSED_REPLICAS = "autoscaler/paused-replicas"
PAUSED_UNTIL = "autoscaler/paused-until"

_MODES = {"true": PauseMode.ALL, "scale-down": PauseMode.SCALE_DOWN, "scale-up": PauseMode.SCALE_UP}
_LONGEST_VALUE = 60


def pause_in_force(
    configured: Pause | None, annotations: Sequence[tuple[str, str]], now: float
) -> tuple[Pause | None, tuple[str, ...]]:
    """Return the pause of a target at ``now``, and what is wrong with its annotations.

    A value that cannot be read pauses all the more: whoever wrote it wanted nothing to move.
    """
    given = dict(annotations)
    if PAUSED not in given and PAUSED_REPLICAS not in given:
        return configured, ()
    until, problem = _until(given)
    problems = [problem] if problem else []
    if until is not None and until <= now:
        return configured, ()
    passed_over = (
        f"{PAUSED_REPLICAS} is passed over: it goes with {PAUSED} of true, or without that"
    )
    if given.get(PAUSED, "").strip().lower() == "false":
        return None, (passed_over,) if PAUSED_REPLICAS in given else ()
    pause = Pause(by=f"the annotation {PAUSED}", until=until)
    if PAUSED in given:
        mode = _MODES.get(given[PAUSED].strip().lower())
        if mode is None:
            problems.append(
                f"{PAUSED} is {_quoted(given[PAUSED])}, and taken as true; it may be true, false, "
                "scale-down or scale-up"
            )
        pause = replace(pause, mode=mode or PauseMode.ALL)
    if PAUSED_REPLICAS in given:
        problem = passed_over
        if pause.mode is PauseMode.ALL:
            pause, problem = _at_replicas(pause, given[PAUSED_REPLICAS])
        problems += [problem] if problem else []
    return pause, tuple(problems)


def paused(result: Reconciled, pause: Pause, current: int, status: StatusRecorder) -> Reconciled:
    """Put the count of a pause of everything in the place of a result."""
    status.override(SCALING_ACTIVE, ConditionStatus.FALSE, SCALING_PAUSED, f"paused by {pause.by}")
    return replace(
        result,
        zone=Zone.PAUSED,
        outcome=Outcome.OK if result.outcome is Outcome.OK else Outcome.PARTIAL,
        desired=current if pause.replicas is None else pause.replicas,
        reason=f"paused by {pause.by}",
    )


def why_paused(pause: Pause, current: int, desired: int) -> tuple[str, str] | None:
    """Return reason and message if a pause of one direction prevents a change; else None."""
    if desired < current and pause.mode is PauseMode.SCALE_DOWN:
        return SCALE_DOWN_PAUSED, f"scale-down is paused by {pause.by}"
    if desired > current and pause.mode is PauseMode.SCALE_UP:
        return SCALE_UP_PAUSED, f"scale-up is paused by {pause.by}"
    return None


def _at_replicas(pause: Pause, text: str) -> tuple[Pause, str]:
    pause = replace(pause, by=f"the annotation {PAUSED_REPLICAS}")
    digits = text.strip()
    if digits.isascii() and digits.isdecimal() and len(digits) <= 10 and int(digits) <= INT32_MAX:
        return replace(pause, replicas=int(digits)), ""
    return pause, (
        f"{PAUSED_REPLICAS} is {_quoted(text)}, which is no count; the current one is kept"
    )


def _until(given: Mapping[str, str]) -> tuple[float | None, str]:
    """Return when the annotations cease to count, in Unix seconds; None if never."""
    text = given.get(PAUSED_UNTIL)
    if text is None:
        return None, ""
    instant = instant_of(text)
    if instant is not None:
        return instant, ""
    return None, (
        f"{PAUSED_UNTIL} is {_quoted(text)}, which is no instant such as 2026-01-31T18:00:00Z; the "
        "pause has no end"
    )


def _quoted(text: str) -> str:
    return f'"{printable(text, _LONGEST_VALUE)}"'
