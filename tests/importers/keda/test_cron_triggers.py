"""A cron trigger becomes a window if one is open exactly when KEDA has the trigger open."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.extensions import Schedule
from autoscaler.migrate.fields import Fields, KeyOutcome
from autoscaler.migrate.keda.cron import schedule_of
from autoscaler.schedules import Cron, open_windows
from tests.importers.keda.converting import converted, prometheus, scaled_object

SUNDAY = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
A_WEEK, HALF_AN_HOUR = 7 * 86400, 1800
NOT_IN_TURN = "starts and ends come in turn, a few a day: write `schedules` by hand"


def schedule(start: str, end: str, count: str = "5", zone: str = "UTC") -> dict[str, object]:
    metadata = {"start": start, "end": end, "timezone": zone, "desiredReplicas": count}
    return schedule_of(metadata, Fields({}))[0]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("0 8 * * 1-5", "0 18 * * 1-5"),
        ("50 23 * * *", "30 01 * * *"),
        ("0 8 * * mon-fri", "0 20 * * MON-FRI"),
        ("0 8 1 * *", "0 8 15 * *"),
        ("0 20 * * 1-4", "0 6 * * 2-5"),
        ("0 20 ? * *", "0 6 * * ?"),
    ],
)
def test_a_cron_trigger_becomes_a_gradual_window(start: str, end: str) -> None:
    times = {"start": start.replace("?", "*"), "end": end.replace("?", "*")}
    assert schedule(start, end) == {**times, "minReplicas": 5, "gradual": True}


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        ("0 8 * * *", "0 8 * * *", "start and end are the same, which KEDA refuses"),
        ("0 8 * * *", "00 8 * * *", NOT_IN_TURN),
        ("0 6 * * 1-5", "0 20 * * *", NOT_IN_TURN),
        ("0 6,12 * * *", "0 20 * * *", NOT_IN_TURN),
        ("0 8 1 * *", "0 8 * * *", NOT_IN_TURN),
        ("0 * * * *", "30 * * * *", NOT_IN_TURN),
        ("*/5 * * * *", "*/7 * * * *", NOT_IN_TURN),
        ("0 9 * * 7", "0 9 * * 1", "start has 7, which KEDA refuses"),
        ("0 9 * * 5-1", "0 9 * * 2", "start has 5-1, which KEDA refuses"),
        ("0 9 * * fri-sun", "0 9 * * 2", "start has fri-sun, which KEDA refuses"),
        ("0 8 last * *", "0 9 last * *", "start has last, which KEDA refuses"),
        ("@daily", "0 9 * * *", "start must be the five fields minute, hour"),
        ("0 9 * * *", "0 25 * * *", 'end its hour is "25"'),
    ],
)
def test_times_without_an_equal_window_are_refused(start: str, end: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="e") as raised:
        schedule(start, end)
    assert sentence in str(raised.value)


@pytest.mark.parametrize("count", ["0", "-1", "1.5"])
def test_a_count_below_1_is_refused(count: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number of 1 or more: KEDA refuses it"):
        schedule("0 8 * * *", "0 9 * * *", count)


@pytest.mark.parametrize(
    ("behavior", "count", "sentence"),
    [
        ("{}", 5, "keeps this count for 300 s after the end, by stabilization:"),
        ("{scaleDown: {stabilizationWindowSeconds: 600}}", 5, "for 600 s after the end"),
        ("{scaleDown: {stabilizationWindowSeconds: 0}}", 5, ""),
        ("{scaleDown: {stabilizationWindowSeconds: 0}}", 20, "leaves a count within its tolerance"),
        ("{scaleUp: {stabilizationWindowSeconds: 60}}", 5, "goes up 60 s after the start"),
    ],
)
def test_stabilization_and_tolerance_differ_at_the_ends_of_a_window(
    behavior: str, count: int, sentence: str
) -> None:
    cron = f"timezone: UTC, start: 0 6 * * *, end: 0 20 * * *, desiredReplicas: '{count}'"
    spec = (
        f"advanced: {{horizontalPodAutoscalerConfig: {{behavior: {behavior}}}}}\n{prometheus()}"
        f"- {{type: cron, metadata: {{{cron}}}}}\n"
    )
    different = converted(scaled_object(spec)).reasons(KeyOutcome.DIFFERENT)
    why = different.get("spec.triggers[1].metadata.desiredReplicas", "")
    assert (sentence in why) if sentence else not why


def fields(values: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    """Write one field of a cron expression: all values, or some."""
    some = st.lists(values, min_size=1, max_size=3, unique=True)
    return st.just("*") | some.map(lambda each: ",".join(map(str, each)))


EXPRESSIONS = st.builds(
    "{} {} * * {}".format,
    st.sampled_from(("0", "30", "0,30")),
    fields(st.integers(0, 23)) | st.sampled_from(("*/6", "8-18/5")),
    fields(st.integers(0, 6)) | st.sampled_from(("1-5", "0,6", "mon-fri", "*/2")),
)


@settings(max_examples=40)
@given(EXPRESSIONS, EXPRESSIONS)
def test_a_window_is_open_exactly_when_that_of_keda_is(start: str, end: str) -> None:
    """Each half hour of a week, one is open where the next end is no later than the next start."""
    try:
        schedule(start, end)
    except ValueError:
        return
    schedules = [Schedule("cron", start, end, "UTC", min_replicas=1)]
    zone = ZoneInfo("UTC")
    starts, ends = Cron(start, zone), Cron(end, zone)
    for instant in range(int(SUNDAY), int(SUNDAY) + A_WEEK, HALF_AN_HOUR):
        in_keda = ends.next_after(instant) <= starts.next_after(instant)
        assert bool(open_windows(schedules, instant)) == in_keda, instant
