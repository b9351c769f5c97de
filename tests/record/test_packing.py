"""Packed samples are unpacked, take little room, and damage is reported."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.persistence.record.changes import deflated
from autoscaler.persistence.record.packing import (
    MOST_NUMBERS,
    Packer,
    by_minute,
    pack_minutes,
    unpack,
    unpack_minutes,
)
from autoscaler.persistence.record.rows import Numbers, Sample

BEGIN = 1_800_000_000.25
PERIOD = 15.0
SYNCS_A_DAY = 5760

Steps = list[tuple[int, Numbers]]
"""Milliseconds since the sample before, and the numbers."""

one_number = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)
numbers = st.lists(one_number, min_size=1, max_size=9).map(tuple)
milliseconds = st.sampled_from([15_000, 30_000, 45_000]) | st.integers(-100_000, 10**9)
steps = st.lists(st.tuples(milliseconds, numbers), max_size=30)


def timed(given_steps: Steps) -> list[Sample]:
    at, samples = round(BEGIN * 1000), []
    for step, those in given_steps:
        at += step
        samples.append(Sample(at / 1000, those))
    return samples


def packed(samples: list[Sample]) -> Packer:
    packer = Packer(BEGIN, PERIOD)
    for sample in samples:
        packer.add(sample.time, sample.numbers)
    return packer


def changed(samples: list[Sample]) -> list[Sample]:
    pairs = pairwise([Sample(BEGIN, ()), *samples])
    return [now for past, now in pairs if now.numbers != past.numbers]


def busy_day() -> list[Sample]:
    """Return a day of a queue of about 40,000 messages that changes at every sync."""
    chance = Random(8)  # noqa: S311 - no secret
    value, current, samples = 40_000_000, 40, []
    for index in range(SYNCS_A_DAY):
        value = abs(value + chance.choice([-1, 1]) * chance.randint(1, 2_000_000))
        proposal = -(-value // 1_000_000)
        desired = max(current - 4, min(current + 4, proposal))
        samples.append(Sample(BEGIN + PERIOD * index, (current, desired, value, proposal)))
        current = desired
    return samples


@given(steps)
def test_packed_samples_are_unpacked_to_the_millisecond(given_steps: Steps) -> None:
    samples, packer = timed(given_steps), Packer(BEGIN, PERIOD)
    pieces = [packer.add(sample.time, sample.numbers) for sample in samples]
    assert "".join(pieces) == packer.text
    assert list(unpack(packer.text, BEGIN, PERIOD)) == changed(samples)
    assert packer.end == (samples[-1].time if samples else BEGIN)


def test_unchanged_samples_take_no_room() -> None:
    packer = Packer(BEGIN, PERIOD)
    assert packer.add(BEGIN, (3, 3, 500, 3))
    later = [BEGIN + PERIOD * index for index in range(1, SYNCS_A_DAY)]
    assert not any(packer.add(time, (3, 3, 500, 3)) for time in later)
    assert packer.end == later[-1]


def test_a_packed_sync_has_6_bytes() -> None:
    """A sync of a busy target has 6 bytes; a minute, with its range, three times that."""
    samples = busy_day()
    packer = packed(samples)
    assert len(list(unpack(packer.text, BEGIN, PERIOD))) == len(samples)
    assert len(deflated(packer.text.encode())) < 6 * len(samples)
    minutes = list(by_minute(samples))
    assert len(minutes) == len(samples) / 4
    packed_minutes = pack_minutes(minutes, minutes[0].time)
    assert len(deflated(packed_minutes.encode())) < 3 * 6 * len(minutes)
    assert list(by_minute(minutes)) == minutes


@pytest.mark.parametrize(
    ("time", "those"),
    [
        (BEGIN + 1, (2**63,)),
        (BEGIN + 1, (None,) * (MOST_NUMBERS + 1)),
        (float("nan"), (2,)),
        (float("inf"), (2,)),
    ],
)
def test_numbers_and_times_out_of_range_are_refused(time: float, those: Numbers) -> None:
    packer = Packer(BEGIN, PERIOD)
    packer.add(BEGIN, (1,))
    with pytest.raises(ValueError, match=r"beyond|more than|not a valid time"):
        packer.add(time, those)
    packer.add(BEGIN + PERIOD, (5,))
    assert [sample.numbers for sample in unpack(packer.text, BEGIN, PERIOD)] == [(1,), (5,)]


@pytest.mark.parametrize(
    "read", [lambda text: unpack(text, BEGIN, PERIOD), lambda text: unpack_minutes(text, BEGIN)]
)
@given(text=st.text(max_size=300) | st.text("0123456789-,;", max_size=300))
def test_unpacking_any_text_fails_only_with_a_value_error(
    read: Callable[[str], Iterator[Sample]], text: str
) -> None:
    try:
        count = sum(1 for _ in read(text))
    except ValueError:
        return
    assert count <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        ",1",  # it is cut off
        ",1.5;",
        "soon,1;",
        ",--;",
        f",{2**63};",
        f",{2**62};,{2**62};",
        f"{2**63},1;",
        f",{'1' * 10_000};",
    ],
)
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"cut off|invalid|64 bits|string"):
        list(unpack(text, BEGIN, PERIOD))


def test_samples_before_the_damage_are_unpacked() -> None:
    samples = busy_day()[:9]
    read = unpack(packed(samples).text + ",8", BEGIN, PERIOD)
    assert [next(read) for _ in samples] == samples
    with pytest.raises(ValueError, match="cut off"):
        next(read)


@given(steps)
def test_packed_minutes_are_unpacked(given_steps: Steps) -> None:
    minutes = list(by_minute(sorted(timed(given_steps), key=lambda step: step.time)))
    begin = minutes[0].time if minutes else BEGIN
    assert list(unpack_minutes(pack_minutes(minutes, begin), begin)) == minutes


@pytest.mark.parametrize(
    ("samples", "minutes"),
    [
        pytest.param(
            [
                *(Sample(65.0, (5,)), Sample(75.0, (9,)), Sample(90.0, (2,)), Sample(105.0, (3,))),
                *(Sample(200.0, (7,)), Sample(240.0, (None,)), Sample(250.0, (8,))),
            ],
            [
                Sample(65.0, (3,), 60.0, (2,), (9,)),
                Sample(180.0, (7,), 60.0, (3,), (7,)),
                Sample(240.0, (8,), 60.0, (8,), (8,)),
            ],
            id="last-least-and-most",
        ),
        pytest.param(
            [Sample(0.0, (5,)), Sample(70.0, (5,)), Sample(130.0, (6,))],
            [Sample(0.0, (5,), 60.0, (5,), (5,)), Sample(120.0, (6,), 60.0, (5,), (6,))],
            id="no-change-no-minute",
        ),
        pytest.param(
            [Sample(0.0, (1, 1, 900, 1)), Sample(15.0, (1, 1, 5, 1, 6, 2))],
            [Sample(0.0, (1, 1, 5, 1, 6, 2), 60.0, (1, 1, 5, 1, 6, 2), (1, 1, 5, 1, 6, 2))],
            id="restart-after-a-reload",
        ),
    ],
)
def test_a_minute_has_the_last_least_and_most_numbers(
    samples: list[Sample], minutes: list[Sample]
) -> None:
    assert list(by_minute(samples)) == minutes
