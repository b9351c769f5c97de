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
from tests.narrowing import assert_parts


def history_at(time: float) -> History:
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


def test_only_instants_move_with_the_clock() -> None:
    assert shifted(history_at(1000.0), 60.5) == history_at(1060.5)
    moved = shifted(history_at(1.0), 2.0).recommendations or ()
    assert [recommendation.first for recommendation in moved] == [True, False]


def test_unset_instants_do_not_move() -> None:
    assert shifted(History(), 60.0) == History()
    assert shifted(replace(history_at(1.0), recommendations=None), 2.0).recommendations is None


# -- data as JSON by field names: what is written is read, and nothing that cannot be --------------


EVER = (-1e300, 1e300)
read = reader_of(History, EVER)


@given(histories)
def test_every_history_is_read_as_it_was(history: History) -> None:
    text = dumps(history)
    assert text.isascii()
    assert same(loads(History, text), history)


def test_only_values_other_than_defaults_are_written() -> None:
    assert dumps(History()) == "{}"
    condition = Condition("A", ConditionStatus.TRUE, "", "", 0.0)
    history = History((), conditions=(condition,), gaps=(ReadingGap("m", since=1.5),))
    assert dumps(history) == (
        '{"recommendations":[],"conditions":[{"type":"A","status":"True","reason":"","message":"",'
        '"last_transition":0.0}],"gaps":[{"metric":"m","since":1.5}]}'
    )


def test_a_class_of_a_union_has_a_word_of_its_own() -> None:
    seen = Observation(Scale(3, 3, "a"), None, (Values((1,)), Gap(GapKind.EMPTY, "nothing")))
    text = dumps(seen)
    assert text == (
        '{"scale":{"type":"scale","spec_replicas":3,"status_replicas":3,"selector":"a"},'
        '"pods":null,"readings":[{"type":"values","values":[1]},'
        '{"type":"gap","kind":"empty","detail":"nothing"}]}'
    )
    assert loads(Observation, text) == seen
    with pytest.raises(UnreadableError, match=r"^scale: 'sacle' "):
        loads(Observation, text.replace('"type":"scale"', '"type":"sacle"'))


def test_missing_fields_have_defaults_and_unknown_fields_are_refused() -> None:
    assert read({"contention": {"known": 1}, "gaps": [{"metric": "m"}]}) == History(
        contention=Contention(1), gaps=(ReadingGap("m"),)
    )
    with pytest.raises(UnreadableError, match=r"^contention: mood "):
        read({"contention": {"known": 1, "mood": "good"}})


COUNT = "0 to 2147483647"
STATUS = "True, False, Unknown"
CONDITION = {"type": "", "status": "True", "reason": "", "message": "", "last_transition": 0}


@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [
        ("desired_replicas", "3", ("'3'", COUNT)),
        ("desired_replicas", 3.0, ("3.0", COUNT)),
        ("desired_replicas", True, ("True", COUNT)),
        ("desired_replicas", None, ("None", COUNT)),
        ("desired_replicas", -1, ("-1", COUNT)),
        ("desired_replicas", 2**31, ("2147483648", COUNT)),
        ("zeroed_by_us", 1, ("1", "true or false")),
        ("unseen", float("nan"), ("nan", "-1e")),
        ("unseen", float("inf"), ("inf", "-1e")),
        ("unseen", 10**400, ("1000",)),
        ("unseen", "today", ("'today'", "-1e")),
        ("controller", 7, ("7", "text")),
        ("scale_ups", {}, ("{}", "list")),
        ("scale_ups", [{"change": 1}], ("time: ", "missing")),
        ("scale_ups", [[1]], ("[1]", "object")),
        ("conditions", [CONDITION | {"status": "Maybe"}], ("status: 'Maybe'", STATUS)),
        ("conditions", [CONDITION | {"status": []}], ("status: ", STATUS)),
        ("contention", None, ("None", "object")),
        ("contention", [], ("[]", "object")),
        ("contention", {"generation": -1}, ("generation: -1", "integer")),
        ("contention", {"our_step": 2**31}, ("our_step: 2147483648", "integer")),
        ("gaps", [{"metric": "m", "losses": [[1.0]]}], ("losses: [1.0]", "2")),
        ("gaps", [{"metric": "m", "until": float("inf")}], ("until: inf", "number")),
    ],
)
def test_a_value_that_no_history_holds_is_refused(
    field: str, value: object, refused: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=f"^{field}: ") as caught:
        read({field: value})
    assert_parts(caught.value, *refused)


@pytest.mark.parametrize("text", ["", "[]", "null", "3", "{", "[" * 100_000])
def test_a_text_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match=r"object$|JSON"):
        loads(History, text)


def test_past_instants_must_lie_within_the_given_range() -> None:
    ahead = ReadingGap("cpu", "web-0", until=T0 + 200_000.0, losses=((T0 - 15.0, 15.0),))
    history = replace(shifted(nth(9), -1000.0), gaps=(ahead,))
    written = json.loads(dumps(history))
    assert reader_of(History, (0.0, T0))(written) == history
    for instants, refused in (
        ((0.0, T0 - 1000.0), f"recommendations: time: {T0 - 909.4}"),
        ((T0 - 999.0, T0), f"scale_ups: time: {T0 - 1000.0}"),
    ):
        with pytest.raises(UnreadableError, match=f"^{refused} "):
            reader_of(History, instants)(written)
