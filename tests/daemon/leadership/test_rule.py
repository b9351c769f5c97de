"""The rule of the election as timelines: who may write, and who may take the Lease, when."""

from dataclasses import replace

import pytest

from autoscaler.kubernetes.election import Election, ElectionTimes, LeaseRecord
from tests.narrowing import known

WALL = 1_800_000_000.0
TIMES = ElectionTimes(lease_duration=15, renew_deadline=10, retry_period=2)
OTHERS = LeaseRecord("b", 15, WALL, WALL, 3)


def candidate(name: str = "a") -> Election:
    """Return a candidate that has seen nothing yet."""
    return Election(name, TIMES)


def leader(asked: float = 0.0) -> Election:
    """Return a candidate that took the Lease with a request sent at an instant."""
    member = candidate()
    member.observe(None, asked)
    bid = known(member.next_record(asked, WALL))
    member.record_written(bid, asked)
    return member


def takes_at(election: Election, instant: float) -> LeaseRecord:
    """Check that a candidate takes the Lease at an instant and no earlier; return its record."""
    assert election.next_record(instant - 0.01, WALL) is None
    return known(election.next_record(instant, WALL))


@pytest.mark.parametrize(
    ("record", "transitions"),
    [(None, 0), (LeaseRecord(), 1), (LeaseRecord("", 1, WALL, WALL, 7), 8)],
    ids=["missing", "without-a-spec", "given-back"],
)
def test_a_lease_without_a_holder_is_taken_at_once(
    record: LeaseRecord | None, transitions: int
) -> None:
    member = candidate()
    member.observe(record, 100.0)
    assert member.next_record(100.0, WALL + 5) == LeaseRecord(
        "a", 15, WALL + 5, WALL + 5, transitions
    )
    assert not member.leading(100.0)


def test_the_lead_counts_from_before_the_request() -> None:
    member = leader(asked=100.0)
    assert member.leading(109.99)
    assert not member.leading(110.0)


def test_a_renewal_keeps_the_acquire_time() -> None:
    member = leader()
    assert member.next_record(2.0, WALL + 2) == LeaseRecord("a", 15, WALL, WALL + 2, 0)
    member.record_written(LeaseRecord("a", 15, WALL, WALL + 2, 0), 2.0)
    assert (member.leading(11.9), member.leading(12.0)) == (True, False)


def test_the_time_of_the_lead_begins_anew_after_a_lapse_or_another_leader() -> None:
    assert candidate().leads_since(100.0) is None
    member = leader(asked=100.0)
    member.record_written(OTHERS, 109.0)
    assert member.leads_since(118.9) == 100.0
    assert member.leads_since(119.0) is None
    member.record_written(OTHERS, 119.5)
    assert member.leads_since(120.0) == 119.5
    member.observe(OTHERS, 121.0)
    assert not member.leading(121.0)
    assert member.leads_since(121.0) is None
    member.record_written(OTHERS, 122.0)
    assert member.leads_since(123.0) == 122.0


def written_at(wall: float | None) -> LeaseRecord:
    """Return the record of a holder whose clock shows some time."""
    return LeaseRecord("b", 15, wall, wall, 3)


def lasting(seconds: float) -> LeaseRecord:
    """Return the record of a holder that writes some duration."""
    return LeaseRecord("b", seconds, WALL, WALL, 3)


@pytest.mark.parametrize(
    ("seen", "taken"),
    [
        ([(100.0, lasting(15)), (110.0, lasting(15))], 115.0),
        ([(100.0, lasting(60)), (110.0, lasting(60))], 160.0),
        # A shorter duration, or none, is not what its holder counts on.
        ([(100.0, lasting(1)), (110.0, lasting(1))], 115.0),
        ([(100.0, lasting(0)), (110.0, lasting(0))], 115.0),
        # Neither a clock that is a day off nor a missing time matters.
        *(
            ([(100.0, written_at(wall))], 115.0)
            for wall in (0.0, WALL - 86_400, WALL + 86_400, None)
        ),
        # Each renewal begins the wait anew.
        ([(float(at), written_at(WALL + at)) for at in range(0, 60, 2)], 73.0),
        # The text may be what was seen long ago; the version shows that others came between.
        ([(0.0, replace(OTHERS, version="7")), (100.0, replace(OTHERS, version="9"))], 115.0),
        # The holder of a deleted Lease may have renewed it until just before.
        ([(0.0, OTHERS), (30.0, None), (32.0, None)], 45.0),
    ],
)
def test_a_lease_of_another_is_taken_when_it_has_not_changed_for_its_duration(
    seen: list[tuple[float, LeaseRecord | None]], taken: float
) -> None:
    member = candidate()
    for at, record in seen:
        member.observe(record, at)
    assert takes_at(member, taken) == LeaseRecord("a", 15, WALL, WALL, 4)


def test_a_renewal_without_an_answer_counts_once_it_is_renewed() -> None:
    """The answer was cut: the holder sees its own record, and renews over it at once."""
    member = leader()
    landed = known(member.next_record(2.0, WALL + 2))
    member.observe(replace(landed, version="8"), 5.0)
    assert member.leading(9.9)
    assert not member.leading(10.0), "nothing counts but an answer"
    again = member.next_record(5.0, WALL + 5)
    assert again == LeaseRecord("a", 15, WALL, WALL + 5, 0)
    member.record_written(again, 5.0)
    assert member.leading(14.9)


def test_a_former_holder_of_a_deleted_lease_waits() -> None:
    """Another may have held the Lease before it was deleted."""
    member = leader()
    member.observe(None, 20.0)
    takes_at(member, 35.0)


def test_a_leader_that_resigns_frees_the_lease() -> None:
    member = leader()
    assert member.release(WALL + 3) == LeaseRecord("", 1, WALL + 3, WALL + 3, 0)
    assert not member.leading(0.1)


def test_a_candidate_without_the_lease_frees_nothing() -> None:
    member = candidate()
    assert member.release(WALL) is None
    member.observe(OTHERS, 0.0)
    assert member.release(WALL) is None
