"""Histories as JSON: what is written is read, and nothing that no history holds."""

import json
from dataclasses import fields

import pytest
from hypothesis import given

from autoscaler.core.history import (
    Condition,
    Contention,
    History,
    PendingWrite,
    ReadingGap,
    Recommendation,
    ScaleEvent,
)
from autoscaler.core.history_json import history_reader, to_json
from autoscaler.core.observation import ConditionStatus
from tests.adapters.store.histories import FULL, histories
from tests.adapters.store.opening import same

read = history_reader(-1e300, 1e300)


@given(histories)
def test_every_history_is_read_as_it_was(history: History) -> None:
    """All fields of it, in ASCII."""
    text = to_json(history)
    assert text.isascii()
    assert same(read(text), history)


def test_only_what_is_not_default_is_written() -> None:
    """By the name of its field; what is within is written whole, in the order of its fields."""
    assert to_json(History()) == "{}"
    condition = Condition("A", ConditionStatus.TRUE, "", "", 0.0)
    history = History((), conditions=(condition,), gaps=(ReadingGap("m", since=1.5),))
    assert to_json(history) == (
        '{"recommendations":[],"conditions":[["A","True","","",0.0]],'
        '"gaps":[["m","",1.5,0.0,false,[]]]}'
    )


def test_another_version_may_have_other_fields() -> None:
    """One that it lacks has its default, and one that is not known is ignored, at every depth."""
    text = '{"mood":["good"],"contention":[1,2,[],4,"red"],"gaps":[["m"]],"desired_replicas":3}'
    contention = Contention(1, 2, (), 4)
    assert read(text) == History(contention=contention, gaps=(ReadingGap("m"),), desired_replicas=3)


def test_a_class_within_a_history_grows_at_its_end_only() -> None:
    """Its fields are kept by their order: these come first for ever."""
    order = {
        Recommendation: "replicas time first",
        ScaleEvent: "change time outdated earliest",
        Condition: "type status reason message last_transition",
        PendingWrite: "before after time resource_version",
        ReadingGap: "metric pod since until first losses",
        Contention: "known our_step reversals generation",
    }
    for kind, first in order.items():
        names = [one.name for one in fields(kind)]
        assert names[: len(first.split())] == first.split()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("desired_replicas", "3", "desired_replicas: '3' cannot be"),
        ("desired_replicas", 3.0, "desired_replicas: 3.0 cannot be"),
        ("desired_replicas", True, "desired_replicas: True cannot be"),
        ("desired_replicas", None, "desired_replicas: None cannot be"),
        ("desired_replicas", -1, "desired_replicas: -1 cannot be"),
        ("desired_replicas", 2**31, "desired_replicas: 2147483648 cannot be"),
        ("zeroed_by_us", 1, "zeroed_by_us: 1 cannot be"),
        ("unseen", float("nan"), "unseen: nan cannot be"),
        ("unseen", float("inf"), "unseen: inf cannot be"),
        ("unseen", 10**400, "unseen: 1000"),
        ("unseen", "today", "unseen: 'today' cannot be"),
        ("controller", 7, "controller: 7 cannot be"),
        ("scale_ups", {}, "scale_ups: {} cannot be"),
        ("scale_ups", [{"change": 1}], "scale_ups: {'change': 1} cannot be"),
        ("scale_ups", [[1]], r"scale_ups: \[1\] cannot be"),
        ("conditions", [["", "Maybe", "", "", 0]], "conditions: status: 'Maybe' is not a valid"),
        ("conditions", [["", [], "", "", 0]], "conditions: status: .* is not a valid"),
        ("contention", None, "contention: None cannot be"),
        ("contention", [3, 0, [], -1], "contention: generation: -1 cannot be"),
        ("contention", [3, 2**31], "contention: our_step: 2147483648 cannot be"),
        ("gaps", [["m", "", 0, 0, True, [[1.0]]]], r"gaps: losses: \[1.0\] cannot be"),
        ("gaps", [["m", "", 0, float("inf")]], "gaps: until: inf cannot be"),
    ],
)
def test_what_no_history_holds_is_refused(field: str, value: object, said: str) -> None:
    """With the path of the field."""
    with pytest.raises(ValueError, match=f"^{said}"):
        read(json.dumps({field: value}))


@pytest.mark.parametrize("text", ["", "[]", "null", "3", "{"])
def test_what_is_no_object_is_refused(text: str) -> None:
    """Whatever it is instead."""
    with pytest.raises(ValueError, match=r"cannot be|Expecting"):
        read(text)


def test_nothing_has_happened_outside_the_instants_that_are_given() -> None:
    """What may lie ahead is not bound by them."""
    latest = max(one.last_transition for one in FULL.conditions)
    assert history_reader(0.0, 1_800_000_000.0)(to_json(FULL)) == FULL
    with pytest.raises(ValueError, match=r"^scale_ups: time: 1799999959.5 cannot be"):
        history_reader(0.0, latest)(to_json(FULL))
    with pytest.raises(ValueError, match=r"^conditions: last_transition: 0.0 cannot be"):
        history_reader(1.0, 1_800_000_000.0)(to_json(FULL))
