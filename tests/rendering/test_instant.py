"""The explanation of an instant: what held, since when and until when, and what else is known."""

import json
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.text import rfc3339_milli
from autoscaler.record.rows import Change, Mark, RecordError, Sample
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.instant import (
    Explanation,
    change_json,
    explanation_at,
    explanation_json,
    recorded_targets,
)
from tests.core.builders import BASE, average, cpu, external, spec, utilization
from tests.core.timeline import Timeline
from tests.record.memory import MemoryRecord, synced

KEY = "shop/Deployment/web"
JOBS = spec(external(average("5"), "jobs_waiting"))


def told(record: MemoryRecord, second: float) -> Explanation:
    """Explain an instant."""
    found = explanation_at(record, KEY, BASE + second)
    assert found is not None
    return found


def recorded() -> tuple[MemoryRecord, Timeline]:
    """Record a night: up at 0:30, fewer messages from 0:45 on, somebody's hand at 2:00."""
    record, timeline = MemoryRecord(), Timeline(JOBS, replicas=8)
    syncs = ((0, 40.0), (15, 41.0), (30, 60.0), (45, 30.0), (60, 31.0))
    for second, jobs in syncs:
        record.keep_synced(timeline.at(f"{second}s", jobs_waiting=jobs))
    timeline.by_hand(9, "kubectl-edit")
    record.keep_synced(timeline.at("120s", jobs_waiting=45))
    return record, timeline


def removed(second: float, number: int = 5) -> Change:
    """Return a change at which the target was configured no longer; `recorded` has four."""
    return Change(number, KEY, BASE + second, "unknown", None, None, 0, 0, Mark.REMOVED, "removed")


def test_of_an_instant_before_all_others_nothing_is_known() -> None:
    """Nor of another target."""
    record, _ = recorded()
    assert explanation_at(record, KEY, BASE - 1) is None
    assert explanation_at(record, "shop/Deployment/other", BASE + 60) is None


def test_the_decision_is_explained_as_plan_does_with_its_time_and_its_end() -> None:
    """Whenever it is asked for between its sync and the next change."""
    record, timeline = MemoryRecord(), Timeline(JOBS, replicas=8)
    record.keep_synced(timeline.at("0s", jobs_waiting=40))
    scaled = synced(timeline.at("30s", jobs_waiting=60))
    record.keep(scaled).keep_synced(timeline.at("45s", jobs_waiting=60))
    for second in (30, 44.9):
        found = told(record, second)
        assert found.lines == tuple(explain(scaled).splitlines())
        assert (found.at, found.time, found.until) == (BASE + second, BASE + 30, BASE + 45)
        assert found.state == "ok"
        assert found.message.startswith("scaled 8 -> 12 replicas: jobs_waiting above target")
        assert found.decision["desiredReplicas"] == 12
        assert found.differences == (
            "it is to go to 12: jobs_waiting above target",
            "the count was written",
            "jobs_waiting is 7.5, before 5, and asks for 12, before 8",
            "condition AbleToScale: True (SucceededRescale), before True (ReadyForNewScale)",
        )
        assert found.alternatives == (
            (
                "at 61 instead of 60, jobs_waiting would have asked for 13, "
                "and the target would have gone to 13"
            ),
            (
                "at 55 instead of 60, jobs_waiting would have asked for 11, "
                "and the target would have gone to 11"
            ),
        )
    assert told(record, 999).until is None


def test_the_values_are_those_of_the_last_sync_if_that_is_a_later_one() -> None:
    """At 0:00 they are in the decision itself."""
    record, _ = recorded()
    assert told(record, 14).values == ()
    assert told(record, 20).values == (
        (
            "since 2026-01-01T00:00:15Z: jobs_waiting is 5.125/5 per replica, which asks for 8; "
            "the count stays at 8"
        ),
    )


def test_a_sync_just_after_the_instant_is_not_told() -> None:
    """Not even one of the same millisecond."""
    record, _ = recorded()
    record.keep_sample(KEY, Sample(BASE + 140.0004, (9, 12, 6000, 9)))
    assert told(record, 140).values == ()


def test_a_minute_tells_its_least_and_its_most() -> None:
    """After a day the syncs of one are recorded together; a utilization is in percent."""
    record, timeline = MemoryRecord(), Timeline(spec(cpu(utilization(80))), replicas=8)
    record.keep_synced(timeline.at("0s", cpu=80))
    minute = Sample(BASE + 60, (8, 8, 83, 8), 60.0, (8, 8, 76, 8), (8, 8, 87, 9))
    record.keep_sample(KEY, minute).keep_sample(KEY, Sample(BASE + 120, (8, 8, None, None)))
    assert told(record, 100).values == (
        (
            "since 2026-01-01T00:01:00Z: cpu is 83%/80% (76% to 87% in that minute), "
            "which asks for 8; the count stays at 8"
        ),
    )
    assert told(record, 200).values == (
        "since 2026-01-01T00:02:00Z: cpu has no value; the count stays at 8",
    )
    record.keep_sample(KEY, Sample(BASE + 180, (8, 8)))
    assert told(record, 200).values == ()


def test_while_nothing_was_recorded_the_last_decision_before_is_shown() -> None:
    """And it says so; the decision after it tells of the time between."""
    record, timeline = recorded()
    record.keep_lapse(KEY, BASE + 130, BASE + 300)
    still = told(record, 200)
    assert still.time == BASE + 120
    assert still.values == (
        "nothing was recorded from 2026-01-01T00:02:10Z on; this is the last decision before that",
    )
    record.keep_synced(timeline.at("310s", jobs_waiting=45))
    for second in (130, 200, 305):  # it was synced some seconds after the daemon had begun
        assert told(record, second).values == (
            (
                "nothing was recorded from 2026-01-01T00:02:10Z to 2026-01-01T00:05:10Z; "
                "this is the last decision before that"
            ),
        )
    assert told(record, 125).values == ()
    back = told(record, 310)
    assert back.values == ()
    assert back.differences[0] == (
        "nothing was recorded from 2026-01-01T00:02:10Z to 2026-01-01T00:05:00Z"
    )


def test_a_decision_just_before_the_record_began_anew_is_not_of_before() -> None:
    """Targets are synced at once, and recorded one after the other."""
    record, _ = recorded()
    record.keep_lapse(KEY, BASE + 100, BASE + 120.01)
    assert told(record, 121).values == ()


def test_what_differs_where_there_is_nothing_to_compare_with() -> None:
    """The first one, one after the target was away, one of a new process."""
    record, timeline = recorded()
    assert told(record, 0).differences == ("it is the first one that is recorded",)
    same = record.change_at(KEY, BASE + 45)
    assert same is not None
    record.keep_change(replace(same, id=5, time=BASE + 135), record.entry(same))
    record.keep_change(replace(same, id=6, time=BASE + 140), record.entry(same))
    assert told(record, 140).differences == ("nothing differs; a new process has begun to record",)
    record.keep_change(removed(150, 7)).keep_synced(timeline.at("165s", jobs_waiting=60))
    assert told(record, 165).differences == (
        "the target was not configured from 2026-01-01T00:02:30Z on",
    )


def test_a_target_that_is_no_longer_configured() -> None:
    """It has no decision, but others may have written before."""
    record, _ = recorded()
    found = told(record.keep_change(removed(150)), 200)
    assert found.lines == (f"{KEY} is no longer configured, since 2026-01-01T00:02:30Z",)
    assert found.decision == {}
    assert len(found.others) == 1


def test_a_decision_that_cannot_be_read_is_told_in_its_own_sentence() -> None:
    """With the reason why there is no more of it; and so is one after it."""
    record, timeline = recorded()
    lost = replace(removed(150), marks=Mark.WRITTEN, message="scaled 9 -> 12 replicas\x1b[31m")
    found = told(record.keep_change(lost), 155)
    assert found.lines == (
        "scaled 9 -> 12 replicas\\x1b[31m",
        f"there is no more of it: the change of {KEY} is lost",
    )
    assert (found.differences, found.alternatives) == ((), ())
    record.keep_synced(timeline.at("165s", jobs_waiting=60))
    assert told(record, 165).differences == (
        f"the decision before cannot be read: the change of {KEY} is lost",
    )


def test_who_else_wrote() -> None:
    """Within the hour before, with the decision, or at its end."""
    record, timeline = recorded()
    by_hand = (
        '"kubectl-edit" set the replicas from 12 to 9, which undoes our last change, '
        "seen at 2026-01-01T00:02:00Z"
    )
    assert told(record, 30).others == ()
    assert told(record, 60).others == (by_hand,)  # it ended so
    assert told(record, 120).others == (by_hand,)
    record.keep_synced(timeline.at("58m0s", jobs_waiting=None))
    assert told(record, 3500).others == (by_hand,)
    record.keep_synced(timeline.at("63m0s", jobs_waiting=45))
    assert told(record, 9999).others == ()


def test_many_others_are_counted() -> None:
    """The last ten are named, from the row where the decision is lost; all of it printable."""
    record = MemoryRecord()
    for number in range(1, 13):
        change = replace(removed(number, number), marks=Mark.FOREIGN, current=number, by="\u202ex")
        record.keep_change(change)
    first, *rest = told(record, 12).others
    assert first == "others set the replicas 12 times around then, the last times so:"
    assert rest[-1] == '"\\u202ex" set the replicas to 12, seen at 2026-01-01T00:00:12Z'
    assert len(rest) == 10


def test_as_json_it_has_all_of_it() -> None:
    """With instants to the millisecond, since two decisions may be of one second."""
    record, _ = recorded()
    found = told(record, 20.5)
    shown = json.loads(json.dumps(explanation_json(found)))
    assert shown["at"] == "2026-01-01T00:00:20.500Z"
    assert shown["until"] == rfc3339_milli(BASE + 30)
    assert shown["lines"] == list(found.lines)
    assert shown["decision"]["desiredReplicas"] == 8
    for name in ("values", "differences", "alternatives", "others"):
        assert shown[name] == list(getattr(found, name))


# -- all targets ---------------------------------------------------------------------------------


def listed(record: MemoryRecord) -> Any:
    """Return all targets as they are sent."""
    return json.loads(json.dumps(recorded_targets(record)))


def test_all_targets_are_as_of_their_last_change() -> None:
    """Sorted by their keys; one that is no longer configured is left out."""
    record, _ = recorded()
    other = Timeline(JOBS, replicas=2).at("200s", jobs_waiting=None)
    record.keep_synced(other, "mail")
    record.keep_change(replace(removed(100, 6), target="shop/Deployment/gone"))
    found = listed(record)
    assert found["time"] == "2026-01-01T00:03:20Z"
    mail, shop = found["targets"]
    assert (mail["target"], mail["since"]) == ("mail/Deployment/web", "2026-01-01T00:03:20Z")
    assert (mail["namespace"], mail["kind"], mail["name"]) == ("mail", "Deployment", "web")
    assert mail["state"] == "failing"
    assert (shop["state"], shop["since"]) == ("held", "2026-01-01T00:02:00Z")
    assert (shop["currentReplicas"], shop["desiredReplicas"]) == (9, 12)
    assert (shop["minReplicas"], shop["maxReplicas"], shop["lastSync"]) == (1, 100, None)
    (metric,) = shop["metrics"]
    assert metric["proposedReplicas"] == 9


def test_a_target_whose_decision_is_lost_still_has_its_count() -> None:
    """And no metrics; of a scale that was not read there is no count."""
    record = MemoryRecord()
    lost = replace(removed(0, 1), marks=Mark.FAILED, current=4, desired=4, state="failed")
    (found,) = listed(record.keep_change(lost))["targets"]
    assert (found["currentReplicas"], found["metrics"]) == (4, [])
    (found,) = listed(MemoryRecord().keep_change(replace(lost, current=None)))["targets"]
    assert found["currentReplicas"] is None


def test_of_an_empty_record_no_target_is_told() -> None:
    """It is an error, and not a fleet without targets."""
    with pytest.raises(RecordError, match="nothing is recorded yet"):
        recorded_targets(MemoryRecord())


def test_a_change_as_json_has_its_marks_in_words_and_who_made_it() -> None:
    """Null where nobody else did."""
    record, _ = recorded()
    by_hand = record.change_at(KEY, BASE + 120)
    first = record.change_at(KEY, BASE)
    assert by_hand is not None
    assert first is not None
    shown = json.loads(json.dumps(change_json(by_hand)))
    assert (shown["marks"], shown["by"]) == (["written", "foreign", "held"], "kubectl-edit")
    assert shown["time"] == "2026-01-01T00:02:00Z"
    assert change_json(first)["by"] is None
