"""The explanation of an instant: what held, since when and until when, and what else is known."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import TypeAdapter

from autoscaler.core.breaker import held_back
from autoscaler.core.classification import Mark
from autoscaler.core.extensions import Extensions, Fallback, Idle, Pause, ReplicaRounding
from autoscaler.core.observation import HoldReading
from autoscaler.core.spec import HorizontalPodAutoscalerSpec
from autoscaler.core.sync_result import SyncResult
from autoscaler.persistence.record.rows import Change, RecordError, Sample
from autoscaler.rendering.alternatives import alternatives
from autoscaler.rendering.answers import ChangeList, Explanation, Instant, TargetList
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.instant import change_of, explanation_at, recorded_targets
from tests.core.builders import (
    BASE,
    average,
    behavior,
    cpu,
    external,
    per_pod,
    pods_policy,
    rules,
    spec,
    utilization,
)
from tests.core.entries import entries, of_last
from tests.core.timeline import Timeline
from tests.narrowing import known
from tests.tables import rows
from tests.worlds.record import MemoryRecord, synced

KEY = "shop/Deployment/web"
JOBS = spec(external(average("5"), "jobs_waiting"))


def explained(record: MemoryRecord, second: float) -> Explanation:
    return known(explanation_at(record, KEY, BASE + second))


def recorded() -> tuple[MemoryRecord, Timeline]:
    """Record a night: up at 0:30, fewer messages from 0:45 on, somebody's hand at 2:00."""
    record, timeline = MemoryRecord(), Timeline(JOBS, replicas=8)
    syncs = ((0, 40.0), (15, 41.0), (30, 60.0), (45, 30.0), (60, 31.0))
    for second, jobs in syncs:
        record.keep_synced(timeline.sync(f"{second}s", jobs_waiting=jobs))
    timeline.by_hand(9, "kubectl-edit")
    record.keep_synced(timeline.sync("120s", jobs_waiting=45))
    return record, timeline


def removed(second: float, number: int = 5) -> Change:
    """Return a change at which the target was configured no longer; `recorded` has four."""
    return Change(number, KEY, BASE + second, "unknown", None, None, 0, 0, Mark.REMOVED, "removed")


def test_before_the_first_decision_there_is_no_explanation() -> None:
    record, _ = recorded()
    assert explanation_at(record, KEY, BASE - 1) is None
    assert explanation_at(record, "shop/Deployment/other", BASE + 60) is None


def test_an_explanation_has_the_lines_of_plan_and_the_time_of_the_decision() -> None:
    record, timeline = MemoryRecord(), Timeline(JOBS, replicas=8)
    record.keep_synced(timeline.sync("0s", jobs_waiting=40))
    scaled = synced(timeline.sync("30s", jobs_waiting=60))
    record.keep(scaled).keep_synced(timeline.sync("45s", jobs_waiting=60))
    for second in (30, 44.9):
        found = explained(record, second)
        assert found.lines == tuple(explain(scaled).splitlines())
        in_force = [" ".join(line.split()) for line in found.lines]
        assert {
            "behavior scale up: at most twice the replicas or 4 per sync, no stabilization window",
            "scale down: to the highest recommendation of the last 5 min 0 s",
            "tolerance: 0.1 of the ratio",
            "last scaled never, as far as known",
        } <= {*in_force}
        assert (found.at, found.time, found.until) == (BASE + second, BASE + 30, BASE + 45)
        assert found.state == "ok"
        assert found.message.startswith("scaled 8 -> 12: jobs_waiting above target")
        assert known(found.decision)["desiredReplicas"] == 12
        assert found.differences == (
            "desired replicas: 8 -> 12 (jobs_waiting above target)",
            "count written",
            "jobs_waiting: 5 -> 7.5 (asks for 12, was 8)",
            "AbleToScale: True (ReadyForNewScale) -> True (SucceededRescale)",
        )
        assert found.alternatives == (
            ("jobs_waiting at 61 instead of 60 (asks for 13): 13 replicas"),
            ("jobs_waiting at 55 instead of 60 (asks for 11): 11 replicas"),
        )
    assert explained(record, 999).until is None


def test_values_come_from_a_later_sync() -> None:
    record, _ = recorded()
    assert explained(record, 14).values == ()
    assert explained(record, 20).values == (
        (
            "since 2026-01-01T00:00:15Z: jobs_waiting: 5.125/5 per replica (asks for 8); "
            "replicas unchanged (8)"
        ),
    )
    # Not even of one of the same millisecond, just after the instant.
    record.keep_sample(KEY, Sample(BASE + 140.0004, (9, 12, 6000, 9)))
    assert explained(record, 140).values == ()


def test_a_minute_has_its_minimum_and_maximum() -> None:
    record, timeline = MemoryRecord(), Timeline(spec(cpu(utilization(80))), replicas=8)
    record.keep_synced(timeline.sync("0s", cpu=80))
    minute = Sample(BASE + 60, (8, 8, 83, 8), 60.0, (8, 8, 76, 8), (8, 8, 87, 9))
    record.keep_sample(KEY, minute).keep_sample(KEY, Sample(BASE + 120, (8, 8, None, None)))
    assert explained(record, 100).values == (
        (
            "since 2026-01-01T00:01:00Z: cpu: 83%/80% (76% to 87% in that minute) (asks for 8); "
            "replicas unchanged (8)"
        ),
    )
    assert explained(record, 200).values == (
        "since 2026-01-01T00:02:00Z: cpu: no value; replicas unchanged (8)",
    )
    record.keep_sample(KEY, Sample(BASE + 180, (8, 8)))
    assert explained(record, 200).values == ()


def test_during_a_lapse_the_last_decision_is_shown() -> None:
    record, timeline = recorded()
    record.keep_lapse(KEY, BASE + 130, BASE + 300)
    still = explained(record, 200)
    assert still.time == BASE + 120
    assert still.values == (
        "nothing was recorded from 2026-01-01T00:02:10Z on; this is the last decision before",
    )
    record.keep_synced(timeline.sync("310s", jobs_waiting=45))
    for second in (130, 200, 305):  # it was synced some seconds after the daemon had begun
        assert explained(record, second).values == (
            (
                "nothing was recorded from 2026-01-01T00:02:10Z to 2026-01-01T00:05:10Z; this is "
                "the last decision before"
            ),
        )
    assert explained(record, 125).values == ()
    back = explained(record, 310)
    assert back.values == ()
    assert back.differences[0] == (
        "nothing was recorded from 2026-01-01T00:02:10Z to 2026-01-01T00:05:00Z"
    )
    record, _ = recorded()
    record.keep_lapse(KEY, BASE + 100, BASE + 120.01)  # the decision of 120 is recorded at its end
    assert explained(record, 121).values == ()


def test_a_decision_without_a_previous_one_has_no_differences() -> None:
    record, timeline = recorded()
    assert explained(record, 0).differences == ("first recorded decision",)
    same = known(record.change_at(KEY, BASE + 45))
    record.keep_change(replace(same, id=5, time=BASE + 135), record.entry(same))
    record.keep_change(replace(same, id=6, time=BASE + 140), record.entry(same))
    resumed = ("no difference; a new process started to record",)
    assert explained(record, 140).differences == resumed
    record.keep_change(removed(150, 7)).keep_synced(timeline.sync("165s", jobs_waiting=60))
    assert explained(record, 165).differences == (
        "not configured before, since 2026-01-01T00:02:30Z",
    )


def test_a_removed_target_has_no_decision() -> None:
    record, _ = recorded()
    found = explained(record.keep_change(removed(150)), 200)
    assert found.lines == (f"{KEY}: not configured since 2026-01-01T00:02:30Z",)
    assert found.decision is None
    assert len(found.others) == 1


def test_a_lost_decision_keeps_its_sentence() -> None:
    record, timeline = recorded()
    lost = replace(removed(150), marks=Mark.WRITTEN, message="scaled 9 -> 12\x1b[31m")
    found = explained(record.keep_change(lost), 155)
    assert found.lines == (
        "scaled 9 -> 12\\x1b[31m",
        f"the rest cannot be read: no entry: {KEY}",
    )
    assert (found.differences, found.alternatives) == ((), ())
    record.keep_synced(timeline.sync("165s", jobs_waiting=60))
    assert explained(record, 165).differences == (
        f"the previous decision cannot be read: no entry: {KEY}",
    )


def test_changes_by_other_clients_of_the_last_hour_are_listed() -> None:
    record, timeline = recorded()
    by_hand = (
        '"kubectl-edit" set the replicas: 12 -> 9 (undoes our last change), seen at '
        "2026-01-01T00:02:00Z"
    )
    assert explained(record, 30).others == ()
    assert explained(record, 60).others == (by_hand,)  # it ended so
    assert explained(record, 120).others == (by_hand,)
    record.keep_synced(timeline.sync("58m0s", jobs_waiting=None))
    assert explained(record, 3500).others == (by_hand,)
    record.keep_synced(timeline.sync("63m0s", jobs_waiting=45))
    assert explained(record, 9999).others == ()


def test_ten_of_many_changes_by_others_are_named() -> None:
    record = MemoryRecord()
    for number in range(1, 13):
        change = replace(removed(number, number), marks=Mark.FOREIGN, current=number, by="\u202ex")
        record.keep_change(change)
    first, *rest = explained(record, 12).others
    assert first == "other clients set the replicas 12 times around this time; the last ones:"
    assert rest[-1] == '"\\u202ex" set the replicas to 12, seen at 2026-01-01T00:00:12Z'
    assert len(rest) == 10


# -- all targets ---------------------------------------------------------------------------------


def listed(record: MemoryRecord) -> Any:
    return json.loads(recorded_targets(record).encoded())


def test_targets_are_listed_as_of_their_last_change() -> None:
    record, _ = recorded()
    other = Timeline(JOBS, replicas=2).sync("200s", jobs_waiting=None)
    record.keep_synced(other, "mail")
    record.keep_change(replace(removed(100, 6), target="shop/Deployment/gone"))
    found = listed(record)
    assert found["time"] == "2026-01-01T00:03:20Z"
    mail, shop = found["targets"]
    assert (mail["target"], mail["since"]) == ("mail/Deployment/web", "2026-01-01T00:03:20Z")
    assert (mail["namespace"], mail["kind"], mail["name"]) == ("mail", "Deployment", "web")
    assert mail["state"] == "failing"
    assert (shop["state"], shop["since"]) == ("stabilizing", "2026-01-01T00:00:45Z")
    failing = replace(removed(220, 7), target=mail["target"], state="failing", marks=Mark(0))
    assert listed(record.keep_change(failing))["targets"][0]["since"] == mail["since"]
    assert (shop["currentReplicas"], shop["desiredReplicas"]) == (9, 12)
    assert (shop["minReplicas"], shop["maxReplicas"], shop["lastSync"]) == (1, 100, None)
    (metric,) = shop["metrics"]
    assert metric["proposedReplicas"] == 9


def test_a_target_with_a_lost_decision_has_its_count() -> None:
    lost = replace(removed(0, 1), marks=Mark.FAILED, current=4, desired=4, state="failed")
    for current in (4, None):
        record = MemoryRecord().keep_change(replace(lost, current=current))
        (found,) = listed(record)["targets"]
        assert (found["currentReplicas"], found["metrics"]) == (current, [])
    with pytest.raises(RecordError, match="nothing is recorded yet"):
        recorded_targets(MemoryRecord())


def test_a_change_as_json_has_its_marks_in_words_and_who_made_it() -> None:
    record, _ = recorded()
    by_hand = record.change_at(KEY, BASE + 120)
    first = record.change_at(KEY, BASE)
    assert by_hand is not None
    assert first is not None
    shown = json.loads(change_of(by_hand, record).encoded())
    assert (shown["marks"], shown["by"]) == (["written", "foreign", "stabilizing"], "kubectl-edit")
    assert (shown["replicasBefore"], shown["currentReplicas"]) == (12, 9)
    assert shown["time"] == "2026-01-01T00:02:00Z"
    assert change_of(first, record).by is None


# -- read back -------------------------------------------------------------------------------------


def test_recorded_answers_are_read_as_they_were_written() -> None:
    record, _ = recorded()
    explanation = known(explanation_at(record, KEY, BASE + 30.5))
    assert Explanation.model_validate_json(explanation.encoded()) == explanation
    rows = record.changes(None, 0, 1e12, limit=9)
    changes = ChangeList(changes=tuple(change_of(row, record) for row in rows))
    assert len(changes.changes) > 3
    assert ChangeList.model_validate_json(changes.encoded()) == changes
    targets = recorded_targets(record)
    assert TargetList.model_validate_json(targets.encoded()).targets == targets.targets


def test_unknown_states_and_fields_are_ignored() -> None:
    record, _ = recorded()
    document = recorded_targets(record).document()
    document["targets"][0] |= {"state": "dreaming", "dreams": 3}
    assert TargetList.model_validate(document).targets[0].state == "dreaming"


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00", 3 + 4j])
def test_an_instant_without_a_time_zone_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="valid number"):
        TypeAdapter(Instant).validate_python(text)


def test_json_is_ascii() -> None:
    record, _ = recorded()
    row = record.changes(None, 0, 1e12, limit=1)[0]
    change = change_of(row, record).model_copy()
    odd = type(change).model_validate(change.document() | {"message": "\ud800 \u202e \x1b"})
    sent = odd.encoded()
    assert sent.isascii()
    assert json.loads(sent)["message"] == "\\ud800 \u202e \x1b"


# -- what would have had to be different -----------------------------------------------------------


QUEUE, MAILS = external(average("5"), "jobs"), external(average("5"), "mails")
FREE = behavior(up=rules(pods_policy(100), window=0), down=rules(pods_policy(100), window=0))


def target(of: HorizontalPodAutoscalerSpec | None = None, **extensions: object) -> Timeline:
    """Begin a timeline of a target with 8 replicas whose scale-down nothing holds."""
    more = Extensions(**extensions)  # type: ignore[arg-type]
    return Timeline(of or spec(QUEUE, behavior=FREE), replicas=8, extensions=more)


def fought() -> Timeline:
    """Let others undo our changes three times."""
    timeline = target().sync("0s", jobs=60)
    for second in (15, 30, 45):
        timeline.by_hand(8, "kubectl").sync(f"{second}s", jobs=60)
    return timeline


SLOW_UP = behavior(up=rules(pods_policy(2, 60), window=0))
HOLDS = HoldReading(1, '{job="orders"}')
BOTH = spec(QUEUE, MAILS, behavior=FREE)


TIMELINES = {
    "recommendation": target(spec(QUEUE))
    .sync("0s", jobs=40)
    .sync("15s", jobs=45)
    .sync("30s", jobs=25),
    "recommendations": target(spec(QUEUE))
    .sync("0s", jobs=40)
    .sync("15s", jobs=40)
    .sync("30s", jobs=25),
    "first count": target(spec(QUEUE)).sync("0s", jobs=25),
    "limit": target(spec(QUEUE, behavior=SLOW_UP)).sync("0s", jobs=60),
    "maximum": target(spec(QUEUE, maximum=10)).sync("0s", jobs=60),
    "maximum far away": target(spec(QUEUE, maximum=10)).sync("0s", jobs=500),
    "unknown bound": target().asked_bounds(least=float("nan")).sync("0s", jobs=20),
    "hold": target().holds(HOLDS).sync("0s", jobs=25),
    "past hold": target()
    .over(60.0)
    .sync("0s", jobs=40)
    .holds(HOLDS)
    .sync("5m", jobs=40)
    .holds(HoldReading())
    .sync("6m", jobs=40)
    .sync("6m15s", jobs=25),
    "failure": target(BOTH).sync("0s", jobs=25, mails=None),
    "fallback": target(BOTH, fallback=Fallback(12, 1)).sync("0s", jobs=25, mails=None),
    "pause": target(pause=Pause()).sync("0s", jobs=25),
    "idle": target(idle=Idle(after=0.0)).sync("0s", jobs=0),
    "multiple": target(replicas=ReplicaRounding(4)).sync("0s", jobs=45),
    "others": fought(),
    "value": target().sync("0s", jobs=41),
    "percent": target(spec(cpu(utilization(80)), behavior=FREE)).sync("0s", cpu=80),
    "average": target(spec(per_pod("100"), behavior=FREE)).sync("0s", rps=100),
}
SENTENCES = """
recommendation | without the recommendation of 9 at 00:00:15Z: 8 replicas (expires at 00:05:15Z)
recommendations | without the earlier recommendations: 5 replicas (the last one, 8 at 00:00:15Z,
    expires at 00:05:15Z)
first count | without the 8 replicas at the first sync, 00:00:00Z: 5 replicas (expires at 00:05:00Z)
limit | without the scaling policies: 12 replicas (they permit more from 00:01:00Z)
maximum | maxReplicas 12: 12 replicas
maximum far away | maxReplicas 100: 16 replicas at first
unknown bound | minReplicasQuery returning 4: 4 replicas
hold | without holdScaleDownQuery: 5 replicas
past hold | without holdScaleDownQuery: 5 replicas (expires at 00:07:20Z)
failure | without the failed metric mails: 5 replicas
fallback | without the fallback: 8 replicas
pause | without the pause: 5 replicas
idle | without `idle`: 1 replica
multiple | without `replicas.multipleOf`: 9 replicas
others | without the changes by other clients: 12 replicas (they count until 00:10:45Z)
value | jobs at 45 instead of 41 (asks for 9): 9 replicas
percent | cpu 11.25% higher on each pod (89% instead of 80%, asks for 9): 9 replicas
average | rps 12.5% lower on each pod (87.5 instead of 100, asks for 7): 7 replicas
"""


@pytest.mark.parametrize(("name", "sentence"), rows(SENTENCES), ids=list(TIMELINES))
def test_each_alternative_has_a_sentence(name: str, sentence: str) -> None:
    assert sentence in alternatives(of_last(TIMELINES[name]))


def test_an_alternative_names_the_breaker() -> None:
    entry = of_last(target().sync("0s", jobs=25))
    before = entry.inputs.history
    held, _ = held_back(entry.decision, before, before, "", BASE + 600)
    assert alternatives(replace(entry, decision=held))[0] == (
        "without the scale-down breaker: 5 replicas (until 00:10:00Z)"
    )


def test_at_most_eight_alternatives_are_listed_and_values_come_first() -> None:
    names = [f"m{index}" for index in range(9)]
    of = spec(*(external(average("5"), name) for name in names), behavior=FREE)
    readings: dict[str, float | None] = dict.fromkeys(names, 40.0)
    found = alternatives(of_last(target(of).sync("0s", **readings)))  # type: ignore[arg-type]
    assert len(found) == 8
    assert all(text.endswith(": 9 replicas") for text in found)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(entries)
def test_the_alternatives_of_any_decision_are_unique_and_printable(entry: SyncResult) -> None:
    found = alternatives(entry)
    assert len(set(found)) == len(found)
    assert all(text.isprintable() and "None" not in text for text in found)
