"""A trigger of type cron -> a window of `schedules`.

KEDA has it open while its next end comes no later than its next start; a window here is open from
an instant of its start to the next of its end.  Both are the same where starts and ends come in
turn.  https://keda.sh/docs/latest/scalers/cron/
"""

from zoneinfo import ZoneInfo

from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.metadata import name_of, number_of, text_of
from autoscaler.migrate.values import not_filled_in, placeholder
from autoscaler.schedules import Cron, alternate, time_zone

_STABILIZATION = 300
"""Seconds, of scaling down in an HPA that says nothing else."""
_TOLERATED = 10
"""The smallest count of which an HPA tolerates one replica more or less."""
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_REQUIRED = "start, end, timezone and desiredReplicas are required in KEDA"
_NO_COUNT = "its desiredReplicas must be a whole number of 1 or more: KEDA refuses it"
_EQUAL = "start and end are the same, which KEDA refuses: write two times"
_NOT_IN_TURN = (
    "KEDA has it open while its next end comes no later than its next start; that is a window only "
    "if starts and ends come in turn, a few a day: write `schedules` by hand, with an end for each "
    "start, such as start: 0 6 * * 1-5 and end: 0 20 * * 1-5"
)


def schedule_of(index: int, trigger: Fields, behavior: Fields) -> dict[str, object]:
    """Convert a trigger by the position that it has; the count of a window is its minimum.

    ``behavior`` is that of KEDA's HPA.  Raises ValueError with a sentence for what KEDA refuses,
    and for times that no window stands for.
    """
    metadata = trigger.within("metadata")
    kind = trigger.get("metricType")
    if kind not in (None, "", "AverageValue"):
        why = "of a cron trigger makes no sense but as AverageValue: leave it out"
        trigger.refused("metricType", why=why, kind="cron")
    start, end, zone = (text_of(metadata, key) for key in ("start", "end", "timezone"))
    count = number_of(metadata, "desiredReplicas", "cron")
    if start is None or end is None or zone is None or count is None:
        raise ValueError(_REQUIRED)
    for text in (start, end, zone):
        if found := placeholder(text):
            raise ValueError(not_filled_in(found))
    if not isinstance(count, int) or count < 1:
        raise ValueError(_NO_COUNT)
    try:
        time_zone(zone)
    except ValueError as error:
        raise ValueError(f"its timezone {error}") from None
    if start == end:
        raise ValueError(_EQUAL)
    start, end = _as_cron("start", start), _as_cron("end", end)
    if not alternate(start, end):
        raise ValueError(_NOT_IN_TURN)
    if differences := _differences(count, behavior):
        metadata.different("desiredReplicas", why=differences)
    zoned = {} if zone == "UTC" else {"timezone": zone}
    times = {"start": start, "end": end}
    name = name_of(trigger, f"cron-{index}")
    return {"name": name, **times, **zoned, "minReplicas": count, "gradual": True}


def _differences(count: int, behavior: Fields) -> str:
    """Say what KEDA's HPA does about the count that a window does not."""
    up, down = (
        seconds if isinstance(seconds, int) else default
        for seconds, default in (
            (behavior.peek("scaleUp", "stabilizationWindowSeconds"), 0),
            (behavior.peek("scaleDown", "stabilizationWindowSeconds"), _STABILIZATION),
        )
    )
    parts = [
        f"goes up {up} s after the start, by stabilization" if up else "",
        f"keeps this count for {down} s after the end, by stabilization" if down else "",
        "leaves a count within its tolerance as it is" if count >= _TOLERATED else "",
    ]
    differs = ", and ".join(part for part in parts if part)
    return (
        f"KEDA's HPA {differs}: here the minimum holds exactly from start to end" if differs else ""
    )


def _as_cron(key: str, text: str) -> str:
    """Return an expression as `schedules` takes it.  Raises ValueError."""
    cron = " ".join("*" if field == "?" else field for field in text.split())
    try:
        Cron(cron, ZoneInfo("UTC"))
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None
    if "last" in cron.lower():
        raise ValueError(f"{key} has last, which KEDA refuses")
    for part in cron.lower().split()[4].split(","):
        first, _, last = part.partition("/")[0].partition("-")
        if "7" in (first, last) or (last and _number(last) < _number(first)):
            raise ValueError(f"{key} has {part}, which KEDA refuses: its week is 0, Sunday, to 6")
    return cron


def _number(day: str) -> int:
    return _DAYS.index(day) if day in _DAYS else int(day)
