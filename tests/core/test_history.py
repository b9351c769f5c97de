"""What happens to a history when the clock is set."""

import json
from dataclasses import replace

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
    shifted,
)
from autoscaler.core.observation import Gap, GapKind, Observation, Scale, Values
from autoscaler.core.spec import ConditionStatus
from autoscaler.persistence.codec import UnreadableError, dumps, loads, reader_of
from tests.adapters.store.histories import histories, nth
from tests.adapters.store.opening import T0, same


def at(time: float) -> History:
    """Return a history with every field, in which all happened at one time."""
    return History(
        (Recommendation(3, time, first=True), Recommendation(-1, time)),
        (ScaleEvent(1, time, earliest=time), ScaleEvent(2, time, outdated=True)),
        (ScaleEvent(3, time, earliest=time),),
        (Condition("AbleToScale", ConditionStatus.FALSE, "reason", "message", time),),
        7,
        time,
        True,  # noqa: FBT003 - zeroed_by_us
        PendingWrite(7, 8, time, "12"),
        Contention(7, -1, (time, time), 17),
        unobserved=True,
        gaps=(
            ReadingGap("a", "b", time, time, first=True, losses=((time, 5.0), (time, 6.0))),
            ReadingGap("c", until=time),
        ),
        unseen=time,
        controller="an HPA",
    )


def test_every_instant_moves_and_nothing_else() -> None:
    """By the same seconds; a loss lasts as long as before."""
    assert shifted(at(1000.0), 60.5) == at(1060.5)
    assert [
        recommendation.first for recommendation in shifted(at(1.0), 2.0).recommendations or ()
    ] == [True, False]


def test_what_never_happened_does_not_move() -> None:
    assert shifted(History(), 60.0) == History()
    assert shifted(replace(at(1.0), recommendations=None), 2.0).recommendations is None


# -- data as JSON by field names: what is written is read, and nothing that cannot be --------------


EVER = (-1e300, 1e300)
read = reader_of(History, EVER)


@given(histories)
def test_every_history_is_read_as_it_was(history: History) -> None:
    """All fields of it, in ASCII."""
    text = dumps(history)
    assert text.isascii()
    assert same(loads(History, text), history)


def test_only_what_is_not_default_is_written() -> None:
    """By the name of its field, at every depth."""
    assert dumps(History()) == "{}"
    condition = Condition("A", ConditionStatus.TRUE, "", "", 0.0)
    history = History((), conditions=(condition,), gaps=(ReadingGap("m", since=1.5),))
    assert dumps(history) == (
        '{"recommendations":[],"conditions":[{"type":"A","status":"True","reason":"","message":"",'
        '"last_transition":0.0}],"gaps":[{"metric":"m","since":1.5}]}'
    )


def test_a_class_that_is_one_of_several_is_named_by_a_word_of_its_own() -> None:
    """Not by the name of the class, which may change."""
    seen = Observation(Scale(3, 3, "a"), None, (Values((1,)), Gap(GapKind.EMPTY, "nothing")))
    text = dumps(seen)
    assert text == (
        '{"scale":{"type":"scale","spec_replicas":3,"status_replicas":3,"selector":"a"},'
        '"pods":null,"readings":[{"type":"values","values":[1]},'
        '{"type":"gap","kind":"empty","detail":"nothing"}]}'
    )
    assert loads(Observation, text) == seen
    with pytest.raises(UnreadableError, match=r"^scale: 'sacle' is not one of scale, "):
        loads(Observation, text.replace('"type":"scale"', '"type":"sacle"'))


def test_another_version_may_lack_fields_and_a_field_of_a_newer_one_is_refused() -> None:
    """One that is missing has its default; one that is not known says so, at every depth."""
    assert read({"contention": {"known": 1}, "gaps": [{"metric": "m"}]}) == History(
        contention=Contention(1), gaps=(ReadingGap("m"),)
    )
    with pytest.raises(UnreadableError, match=r"^contention: mood is not known to this version$"):
        read({"contention": {"known": 1, "mood": "good"}})


COUNT = "is not an integer from 0 to 2147483647$"
STATUS = "is not one of True, False, Unknown$"
CONDITION = {"type": "", "status": "True", "reason": "", "message": "", "last_transition": 0}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("desired_replicas", "3", f"desired_replicas: '3' {COUNT}"),
        ("desired_replicas", 3.0, f"desired_replicas: 3.0 {COUNT}"),
        ("desired_replicas", True, f"desired_replicas: True {COUNT}"),
        ("desired_replicas", None, f"desired_replicas: None {COUNT}"),
        ("desired_replicas", -1, f"desired_replicas: -1 {COUNT}"),
        ("desired_replicas", 2**31, f"desired_replicas: 2147483648 {COUNT}"),
        ("zeroed_by_us", 1, "zeroed_by_us: 1 is not true or false$"),
        ("unseen", float("nan"), "unseen: nan is not a number from -1e"),
        ("unseen", float("inf"), "unseen: inf is not a number from -1e"),
        ("unseen", 10**400, "unseen: 1000"),
        ("unseen", "today", "unseen: 'today' is not a number from -1e"),
        ("controller", 7, "controller: 7 is not a text$"),
        ("scale_ups", {}, "scale_ups: {} is not a list$"),
        ("scale_ups", [{"change": 1}], "scale_ups: time: it is missing"),
        ("scale_ups", [[1]], r"scale_ups: \[1\] is not an object$"),
        ("conditions", [CONDITION | {"status": "Maybe"}], f"conditions: status: 'Maybe' {STATUS}"),
        ("conditions", [CONDITION | {"status": []}], f"conditions: status: .* {STATUS}"),
        ("contention", None, "contention: None is not an object$"),
        ("contention", [], r"contention: \[\] is not an object$"),
        ("contention", {"generation": -1}, "contention: generation: -1 is not an integer"),
        ("contention", {"our_step": 2**31}, "contention: our_step: 2147483648 is not an"),
        ("gaps", [{"metric": "m", "losses": [[1.0]]}], r"gaps: losses: \[1.0\] is not a list of 2"),
        ("gaps", [{"metric": "m", "until": float("inf")}], "gaps: until: inf is not a number"),
    ],
)
def test_what_no_history_holds_is_refused(field: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        read({field: value})


@pytest.mark.parametrize("text", ["", "[]", "null", "3", "{", "[" * 100_000])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match=r"is not an object$|invalid JSON"):
        loads(History, text)


def test_nothing_has_happened_outside_the_instants_that_are_given() -> None:
    """What may lie ahead is not bound by them."""
    ahead = ReadingGap("cpu", "web-0", until=T0 + 200_000.0, losses=((T0 - 15.0, 15.0),))
    history = replace(shifted(nth(9), -1000.0), gaps=(ahead,))
    written = json.loads(dumps(history))
    assert reader_of(History, (0.0, T0))(written) == history
    for instants, said in (
        ((0.0, T0 - 1000.0), f"recommendations: time: {T0 - 909.4} is not a number"),
        ((T0 - 999.0, T0), f"scale_ups: time: {T0 - 1000.0} is not a number"),
    ):
        with pytest.raises(UnreadableError, match=f"^{said}"):
            reader_of(History, instants)(written)
