"""Converts a trigger of type cron to a window of `schedules`.

https://keda.sh/docs/latest/scalers/cron/
"""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from autoscaler.migrate.fields import Fields, not_filled_in, placeholder
from autoscaler.migrate.keda.metadata import parsed
from autoscaler.schedules import Cron, alternate, time_zone

KEYS = ("start", "end", "timezone", "desiredReplicas")
_STABILIZATION = 300
"""The default window of scaling down of an HPA, in seconds."""
_TOLERATED = 10
"""The smallest count at which an HPA tolerates one replica more or less."""
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_REQUIRED = "start, end, timezone and desiredReplicas are required in KEDA"
_NO_COUNT = "its desiredReplicas must be a whole number of 1 or more: KEDA refuses it"
_EQUAL = "start and end are the same, which KEDA refuses: write two times"
_NOT_IN_TURN = (
    "KEDA has it open while its next end comes no later than its next start; that is a window only "
    "if starts and ends come in turn, a few a day: write `schedules` by hand, with an end for each "
    "start, such as start: 0 6 * * 1-5 and end: 0 20 * * 1-5"
)


def schedule_of(texts: Mapping[str, str], behavior: Fields) -> tuple[dict[str, object], str]:
    """Convert the metadata of a trigger: the window, without its name, and the differences.

    The count of a window is its minimum. ``behavior`` is the behavior of KEDA's HPA. Raises
    ValueError with a message for times that KEDA refuses, or that no window can express.
    """
    start, end, zone, number = (texts.get(key) for key in KEYS)
    if start is None or end is None or zone is None or number is None:
        raise ValueError(_CRON_REQUIRED)
    for text in (start, end, zone, number):
        if found := placeholder(text):
            raise ValueError(not_filled_in(found))
    count = parsed(number)
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
    zoned = {} if zone == "UTC" else {"timezone": zone}
    window = {"start": start, "end": end, **zoned, "minReplicas": count, "gradual": True}
    return window, _differences(count, behavior)


def _differences(count: int, behavior: Fields) -> str:
    """Return what KEDA's HPA does about the count that a window does not."""
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
    """Return an expression in the form of `schedules`. Raises ValueError."""
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
