"""The log, the page of the targets and `plan -o json` say the same of a decision."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from autoscaler.core.extensions import Extensions
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon import LogLevel
from autoscaler.rendering.answers import (
    ChangeList,
    Decision,
    Explanation,
    Instant,
    TargetList,
    TargetState,
)
from autoscaler.rendering.instant import change_of, explanation_at, recorded_targets
from autoscaler.rendering.record import target_state, whole
from autoscaler.web.api.endpoints import target_list
from tests.core.builders import BASE, cpu, spec, utilization, values
from tests.narrowing import known
from tests.rendering.test_extension_words import IDLE, NOTHING, OFFICE_HOURS, lower, opened, target
from tests.rendering.test_instant import KEY, recorded
from tests.rendering.test_words import HELD, QUEUE, REFUSED, SLOW, synced
from tests.telemetry.results import NOW, metrics_of
from tests.worlds.log import log_of
from tests.worlds.record import synced as result

Json = dict[str, Any]

RESULTS = [
    synced(spec(QUEUE, behavior=SLOW), 1, values(90.0)),
    synced(spec(QUEUE), 8, values(30.0), earlier=HELD),
    synced(spec(QUEUE, cpu(utilization(50))), 2, values(50.0), REFUSED),
    result(target(replicas=3).annotated(paused_replicas="5").sync("0s", queue=83)),
    result(target(IDLE, replicas=1).sync("0s", queue=4)),
    result(target(IDLE, replicas=0).sync("0s", queue=None)),
    result(target(lower(2), replicas=3).sync("0s", queue=None)),
    result(target(replicas=5).asked_bounds(NOTHING, 12).sync("0s", queue=50)),
    result(
        target(Extensions(schedules=(OFFICE_HOURS,)), replicas=5)
        .opened(opened(OFFICE_HOURS))
        .sync("0s", queue=500)
    ),
]
OF_THE_LOG = {"event", "level", "timestamp", "logger", "stateBefore", "secondsBefore"}
OF_THE_PAGE = {"namespace", "kind", "name", "since", "lastSync"}


def logged(result: SyncResult) -> Json:
    """Return the line of a result, with its keys in camelCase."""
    line: Json = json.loads(log_of([result], LogLevel.DEBUG), object_pairs_hook=camel)
    # These two stages have keys of their own; the reason is written for people.
    return {key: line[key] for key in line.keys() - {"stabilize", "limit", "reason", "time"}}


def camel(pairs: list[tuple[str, object]]) -> Json:
    """Return an object with keys in camelCase."""
    return {
        first + "".join(other.capitalize() for other in others): value
        for (first, *others), value in ((key.split("_"), value) for key, value in pairs)
    }


def listed(result: SyncResult) -> Json:
    """Return the target as the page has it."""
    page = b"".join(target_list(metrics_of(result).states.known(), NOW))
    (target,) = json.loads(page)["targets"]
    return dict(target)


@pytest.mark.parametrize("result", RESULTS)
def test_a_field_has_one_name_and_one_value_everywhere(result: SyncResult) -> None:
    """What the log and the page have of a target, and of its metrics, is in the whole record."""
    record = json.loads(whole(result).encoded())
    for shown, own in ((logged(result), OF_THE_LOG), (listed(result), OF_THE_PAGE)):
        metrics, whole_metrics = shown.pop("metrics"), record["metrics"]
        assert {key: value for key, value in shown.items() if key not in own} == {
            key: record[key] for key in shown.keys() - own
        }
        for metric, whole_metric in zip(metrics, whole_metrics, strict=True):
            assert metric == {key: whole_metric[key] for key in metric}


# -- read back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", RESULTS)
def test_a_decision_is_read_as_it_was_written(result: SyncResult) -> None:
    """With every detail; a list of targets has the same sentence."""
    decision = whole(result)
    assert Decision.model_validate_json(decision.encoded()).document() == decision.document()
    state = target_state(result, BASE)
    assert TargetState.model_validate_json(state.encoded()) == state
    assert state.message == decision.message


def test_what_is_recorded_is_read_as_it_was_written() -> None:
    """Explanations, changes and the last state of each target, with their instants."""
    record, _ = recorded()
    explanation = known(explanation_at(record, KEY, BASE + 30.5))
    assert Explanation.model_validate_json(explanation.encoded()) == explanation
    rows = record.changes(None, 0, 1e12, limit=9)
    changes = ChangeList(changes=tuple(change_of(row, record) for row in rows))
    assert len(changes.changes) > 3
    assert ChangeList.model_validate_json(changes.encoded()) == changes
    targets = recorded_targets(record)
    assert TargetList.model_validate_json(targets.encoded()).targets == targets.targets


def test_what_another_version_adds_is_no_obstacle() -> None:
    """A state or a field that this one does not know."""
    record, _ = recorded()
    document = recorded_targets(record).document()
    document["targets"][0] |= {"state": "dreaming", "dreams": 3}
    assert TargetList.model_validate(document).targets[0].state == "dreaming"


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00", 3 + 4j])
def test_an_instant_that_is_none_is_refused(text: object) -> None:
    """As one without a time zone is."""
    with pytest.raises(ValueError, match="valid number"):
        TypeAdapter(Instant).validate_python(text)


def test_texts_of_any_characters_are_ascii_in_json() -> None:
    """Also those that UTF-8 cannot hold."""
    record, _ = recorded()
    row = record.changes(None, 0, 1e12, limit=1)[0]
    change = change_of(row, record).model_copy()
    odd = type(change).model_validate(change.document() | {"message": "\ud800 \u202e \x1b"})
    sent = odd.encoded()
    assert sent.isascii()
    assert json.loads(sent)["message"] == "\\ud800 \u202e \x1b"
