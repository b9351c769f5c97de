"""A trigger of type cron -> windows of `schedules`."""

from dataclasses import dataclass

from autoscaler.importers.fields import Fields
from autoscaler.importers.keda.cron_windows import Window, windows_of
from autoscaler.importers.keda.metadata import name_of, number_of, text_of
from autoscaler.importers.values import not_filled_in, placeholder
from autoscaler.schedules import time_zone

_OPEN = "KEDA has it open while its next end comes no later than its next start"


@dataclass(frozen=True)
class CronTrigger:
    """What a trigger becomes; ``problem`` says why it becomes nothing."""

    schedules: tuple[dict[str, object], ...] = ()
    comment: str = ""
    problem: str = ""


def schedules_of(index: int, trigger: Fields) -> CronTrigger:
    """Convert a trigger by the position that it has; the count of a window is its minimum."""
    metadata = trigger.within("metadata")
    kind = trigger.get("metricType")
    if kind not in (None, "", "AverageValue"):
        why = "of a cron trigger makes no sense but as AverageValue: leave it out"
        trigger.refused("metricType", why=why, kind="cron")
    start, end, zone = (text_of(metadata, key) for key in ("start", "end", "timezone"))
    count = number_of(metadata, "desiredReplicas", "cron")
    if start is None or end is None or zone is None or count is None:
        return CronTrigger(problem="start, end, timezone and desiredReplicas are required in KEDA")
    problem = _problem((start, end, zone), count)
    if problem:
        return CronTrigger(problem=problem)
    try:
        windows = windows_of(start, end)
    except ValueError as error:
        return CronTrigger(problem=str(error))
    name = name_of(trigger, f"cron-{index}")
    schedules = tuple(
        _schedule(name if number == 1 else f"{name}-{number}", window, zone, count)
        for number, window in enumerate(windows, 1)
    )
    if len(windows) == 1:
        return CronTrigger(schedules)
    metadata.different("start", why=f"{_OPEN}: {len(windows)} windows are open as it is")
    return CronTrigger(schedules, f"{_OPEN}, {start} and {end}: these windows are open as it is")


def _schedule(name: str, window: Window, zone: str, count: object) -> dict[str, object]:
    zoned = {} if zone == "UTC" else {"timezone": zone}
    times = {"start": window.start, "end": window.end}
    return {"name": name, **times, **zoned, "minReplicas": count}


def _problem(texts: tuple[str, str, str], count: object) -> str:
    """Say what cannot be right of a trigger that has all keys."""
    for text in texts:
        if found := placeholder(text):
            return not_filled_in(found)
    if not isinstance(count, int) or count < 0:
        return "its desiredReplicas is no count, without which KEDA fails"
    try:
        time_zone(texts[-1])
    except ValueError as error:
        return f"its timezone {error}"
    return ""
