"""A trigger of type prometheus, cpu, memory or cron -> a query or a schedule, and a metric.

https://keda.sh/docs/latest/scalers/prometheus/
"""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from autoscaler.config.promql_parser import parse
from autoscaler.core import numbers
from autoscaler.migrate.fields import Fields, not_filled_in, placeholder
from autoscaler.migrate.keda.metadata import is_false, name_of, number_of, parsed, text_of
from autoscaler.migrate.keda.promql import is_one_value
from autoscaler.migrate.promql_answers import A_RATIO_IS_DIVIDED, is_ratio, may_be_nan, tidied
from autoscaler.schedules import Cron, alternate, time_zone

KIND = "prometheus"
NULLS = (
    "KEDA takes an empty answer, NaN and infinity for 0 (ignoreNullValues): leave out `empty` and "
    "`nan` where they may be an outage, so that they scale nothing down"
)
RATIO = A_RATIO_IS_DIVIDED.format("KEDA")
_SMALLEST = 0.001
"""Of a threshold, in KEDA and here: a thousandth."""
_NULLS_IN_SHORT = "KEDA takes an empty answer for 0, and so it is here by `empty: zero`"
_NAN_IN_SHORT = "NaN is 0, too, by `nan: zero`; with infinity, 0 in KEDA, nothing goes down here"
_SEVERAL = "KEDA fails when the query returns several elements; here they are added up"
_REQUIRED = "is required: KEDA fails without it"
_TOO_SMALL = (
    "must be 0.001 or more: Kubernetes refuses the HPA that KEDA makes of it; write what one "
    "replica is to bear"
)
_NOT_EXTERNAL = "KEDA refuses it for a prometheus trigger: write AverageValue or Value"


@dataclass(frozen=True)
class Question:
    """The query of a trigger, and how KEDA reads its answer."""

    promql: str
    nulls_are_zero: bool
    may_be_nan: bool
    is_ratio: bool

    @property
    def words(self) -> dict[str, object]:
        """What is to be said of missing data in an entry of `queries`."""
        if not self.nulls_are_zero:
            return {}
        return {"empty": "zero", **({"nan": "zero"} if self.may_be_nan else {})}


def question_of(metadata: Fields) -> Question | None:
    """Read the query of a trigger; None where there is none, which is refused."""
    # It is true unless something else is said.
    nulls_are_zero = not is_false(text_of(metadata, "ignoreNullValues"))
    text = text_of(metadata, "query")
    if text is None:
        metadata.refused("query", why=_REQUIRED, kind=KIND)
        return None
    promql = tidied(text) if "\n" in text else text
    nan, one, ratio, problem = True, False, False, ""
    try:
        tree = parse(promql)
    except ValueError as error:
        problem = f"its PromQL is not understood: {error}; correct it, and delete this entry"
    else:
        nan, one, ratio = may_be_nan(tree), is_one_value(tree), is_ratio(tree)
    if found := placeholder(text):
        problem = not_filled_in(found)
    if problem:
        metadata.refused("query", why=problem, kind=KIND)
    else:
        said = [_NULLS_IN_SHORT, *([_NAN_IN_SHORT] if nan else [])] if nulls_are_zero else []
        why = "; ".join([*said, *([] if one else [_SEVERAL])])
        if why:
            metadata.different("query", why=why)
    return Question(promql, nulls_are_zero, nan, ratio)


def target_of(trigger: Fields, question: Question) -> tuple[str, int | float | None]:
    """Return the type of the metric's target and its value; None for one that is refused."""
    metadata = trigger.within("metadata")
    kind = trigger.get("metricType") or "AverageValue"
    if kind not in ("AverageValue", "Value"):
        trigger.refused("metricType", why=_NOT_EXTERNAL, kind=KIND)
    if text_of(metadata, "threshold") is None:
        metadata.refused("threshold", why=_REQUIRED, kind=KIND)
        return str(kind), None
    number = number_of(metadata, "threshold", KIND)
    if number is not None and number < _SMALLEST:
        metadata.refused("threshold", why=_TOO_SMALL, kind=KIND)
        return str(kind), None
    if number is not None and kind == "AverageValue" and question.is_ratio:
        metadata.different("threshold", why=RATIO)
    return str(kind), number


def external(name: str, kind: object, value: object) -> dict[str, object]:
    """Write a metric of type External; without a value its target is left to be written."""
    key = "value" if kind == "Value" else "averageValue"
    target = {"type": kind, **({} if value is None else {key: value})}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


_BOTH = "KEDA refuses a type both here and beside the trigger: leave out one"
_OLD = "KEDA refuses it since 2.18, where it is `metricType` of the trigger"
_NEITHER = "KEDA refuses it without a metricType; a number is read as a percentage, Utilization"
_NO_PERCENTAGE = "must be a whole number of percent, 1 or more: KEDA or Kubernetes refuse it"
_NO_QUANTITY = "must be a quantity above 0, such as 500m or 1Gi: KEDA or Kubernetes refuse it"
_NO_TYPE = "must be Utilization or AverageValue, as KEDA refuses all others"


def metric_of(resource: str, trigger: Fields) -> dict[str, object]:
    """Convert a trigger; what is wrong with its value is refused, and its target left open."""
    metadata = trigger.within("metadata")
    container = text_of(metadata, "containerName")
    target = _target(resource, trigger)
    if container is None:
        return {"type": "Resource", "resource": {"name": resource, "target": target}}
    source = {"name": resource, "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": source}


def _target(resource: str, trigger: Fields) -> dict[str, object]:
    metadata = trigger.within("metadata")
    beside, within = trigger.get("metricType"), metadata.get("type")
    text = text_of(metadata, "value")
    if beside and within:
        metadata.refused("type", why=_BOTH, kind=resource)
    elif within:
        metadata.different("type", why=_OLD)
    kind = beside or within or "Utilization"
    problem, value = _value(kind, text)
    if problem:
        place = () if value is not None else ("value",)
        (trigger if value is not None else metadata).refused(*place, why=problem, kind=resource)
        return {"type": kind} if value is None else {"type": "Utilization"}
    if not beside and not within:
        metadata.different("value", why=_NEITHER)
    return {"type": kind, "averageUtilization" if kind == "Utilization" else "averageValue": value}


def _value(kind: object, text: str | None) -> tuple[str, object]:
    """Return what is wrong with a value, or nothing and the value."""
    if text is None:
        return "is required: KEDA fails without it", None
    if found := placeholder(text):
        return not_filled_in(found), None
    if kind == "Utilization":
        number = parsed(text)
        right = isinstance(number, int) and number > 0
        return ("", number) if right else (_NO_PERCENTAGE, None)
    if kind == "AverageValue":
        return ("", text) if _is_positive(text) else (_NO_QUANTITY, None)
    return _NO_TYPE, text


def _is_positive(text: str) -> bool:
    try:
        return numbers.parse_quantity(text) > 0
    except ValueError:
        return False


_STABILIZATION = 300
"""Seconds, of scaling down in an HPA that says nothing else."""
_TOLERATED = 10
"""The smallest count of which an HPA tolerates one replica more or less."""
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_REQUIRED = "start, end, timezone and desiredReplicas are required in KEDA"
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
        raise ValueError(_CRON_REQUIRED)
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
