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


def test_a_lease_that_never_was_is_taken_at_once() -> None:
    """The first record names holder, duration and both times; there was no transition yet."""
    member = candidate()
    member.observe(None, 100.0)
    assert member.next_record(100.0, WALL) == LeaseRecord("a", 15, WALL, WALL, 0)
    assert not member.leading(100.0)


def takes_at(election: Election, instant: float) -> LeaseRecord:
    """Check that a candidate takes the Lease at an instant and no earlier; return its record."""
    assert election.next_record(instant - 0.01, WALL) is None
    return known(election.next_record(instant, WALL))


@pytest.mark.parametrize("record", [LeaseRecord(), LeaseRecord("", 1, WALL, WALL, 7)])
def test_a_lease_of_nobody_is_taken_at_once(record: LeaseRecord) -> None:
    """One without a spec, and one that was given back; taking it is a transition."""
    member = candidate()
    member.observe(record, 0.0)
    assert member.next_record(0.0, WALL + 5) == LeaseRecord(
        "a", 15, WALL + 5, WALL + 5, record.transitions + 1
    )


def test_a_holder_writes_until_the_deadline_from_before_its_request() -> None:
    """Not from the answer, which may have been long on its way."""
    member = leader(asked=100.0)
    assert member.leading(109.99)
    assert not member.leading(110.0)


def test_a_renewal_keeps_when_it_was_acquired() -> None:
    """Only renewTime and duration are written anew; no transition."""
    member = leader()
    assert member.next_record(2.0, WALL + 2) == LeaseRecord("a", 15, WALL, WALL + 2, 0)
    member.record_written(LeaseRecord("a", 15, WALL, WALL + 2, 0), 2.0)
    assert (member.leading(11.9), member.leading(12.0)) == (True, False)


def test_who_leads_says_since_when_nobody_else_can_have() -> None:
    """From the request that took the Lease on; renewals in time keep it, a lapse begins anew."""
    member = candidate()
    assert member.leads_since(100.0) is None
    member = leader(asked=100.0)
    member.record_written(OTHERS, 109.0)
    assert member.leads_since(118.9) == 100.0
    assert member.leads_since(119.0) is None
    member.record_written(OTHERS, 119.5)
    assert member.leads_since(120.0) == 119.5


def test_who_saw_another_lead_begins_anew() -> None:
    """Also within the time that it had been given before."""
    member = leader(asked=100.0)
    member.observe(OTHERS, 101.0)
    assert not member.leading(101.0)
    assert member.leads_since(101.0) is None
    member.record_written(OTHERS, 102.0)
    assert member.leads_since(103.0) == 102.0


@pytest.mark.parametrize(
    ("duration", "waits"), [(15.0, 15.0), (60.0, 60.0), (1.0, 15.0), (0.0, 15.0)]
)
def test_anothers_lease_is_waited_for_from_when_it_was_first_seen(
    duration: float, waits: float
) -> None:
    """As long as its record says; a shorter one, or none, is not what its holder counts on."""
    record = LeaseRecord("b", duration, WALL, WALL, 3)
    member = candidate()
    member.observe(record, 100.0)
    member.observe(record, 110.0)
    assert takes_at(member, 100.0 + waits) == LeaseRecord("a", 15, WALL, WALL, 4)


@pytest.mark.parametrize("written", [0.0, WALL - 86_400, WALL + 86_400, None])
def test_what_the_clock_on_the_wall_said_is_of_no_account(written: float | None) -> None:
    """A holder whose clock is a day off, or that wrote no time, holds as long as any."""
    member = candidate()
    member.observe(LeaseRecord("b", 15, written, written, 0), 100.0)
    takes_at(member, 115.0)


def test_each_renewal_that_is_seen_begins_the_wait_anew() -> None:
    """Any change of the record does."""
    member = candidate()
    for second in range(0, 60, 2):
        member.observe(LeaseRecord("b", 15, WALL, WALL + second, 3), float(second))
    takes_at(member, 73.0)


def test_what_is_put_back_by_hand_is_a_change() -> None:
    """The text may be what was seen long ago; the version tells that others came between."""
    member = candidate()
    member.observe(replace(OTHERS, version="7"), 0.0)
    member.observe(replace(OTHERS, version="9"), 100.0)
    takes_at(member, 115.0)


def test_a_renewal_that_landed_unseen_is_found_and_renewed() -> None:
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


def test_a_follower_whose_lease_was_deleted_waits() -> None:
    """Its holder may have renewed until just before; from then on nobody can have."""
    member = candidate()
    member.observe(OTHERS, 0.0)
    member.observe(None, 30.0)
    member.observe(None, 32.0)
    assert takes_at(member, 45.0) == LeaseRecord("a", 15, WALL, WALL, 4)


def test_a_holder_that_comes_too_late_for_its_deleted_lease_waits_too() -> None:
    """Another may have held the Lease before it was deleted."""
    member = leader()
    member.observe(None, 20.0)
    takes_at(member, 35.0)


def test_who_resigns_leads_no_more_and_frees_the_lease() -> None:
    """Nobody holds it, for the shortest duration that the API allows; transitions stay."""
    member = leader()
    assert member.release(WALL + 3) == LeaseRecord("", 1, WALL + 3, WALL + 3, 0)
    assert not member.leading(0.1)


def test_who_does_not_hold_the_lease_has_nothing_to_free() -> None:
    """Neither a follower, nor who has seen nothing."""
    member = candidate()
    assert member.release(WALL) is None
    member.observe(OTHERS, 0.0)
    assert member.release(WALL) is None
