"""One candidate by itself: clocks that are set or stand still, failures, and defects."""

import threading
import time
from collections.abc import Mapping
from typing import cast

from autoscaler import clock
from autoscaler.kubernetes import Api, Failure, Lease, Leases
from autoscaler.kubernetes.election import ClusterLeader, ElectionTimes, LeaseRecord
from autoscaler.kubernetes.leadership import Leadership, Role, unique
from tests.daemon.leadership.conftest import Told
from tests.worlds.waiting import wait_until


class FakeLease(Leases):
    """A Lease that takes whatever is written, until a test says how writes fail."""

    def __init__(self, present: Lease | None = None) -> None:
        super().__init__(cast(Api, None), "shop", "autoscaler")
        self.present = present
        self.failure: Failure | None = None
        self.unread: Failure | None = None
        self.reads = self.writes = 0

    def read(self, deadline: float) -> Lease | Failure | None:  # noqa: ARG002 - the port's
        self.reads += 1
        return self.present if self.unread is None else self.unread

    def write(
        self,
        record: LeaseRecord,
        over: Lease | None,  # noqa: ARG002 - the port's
        deadline: float,  # noqa: ARG002 - the port's
        annotations: Mapping[str, str] | None = None,  # noqa: ARG002 - the port's
    ) -> Lease | Failure:
        """Take it, or fail."""
        self.writes += 1
        if self.failure is None:
            self.present = Lease(record, {})
            return self.present
        return self.failure


def test_a_machine_that_sleeps_does_not_lead_when_it_wakes() -> None:
    """The steady clock has moved on, although the process did not see any of it."""
    slept = [0.0]
    leadership = Leadership(
        FakeLease(), "a", ElectionTimes(), steady=lambda: clock.steady() + slept[0]
    )
    before = clock.monotonic()
    leadership.try_acquire_or_renew()
    after = clock.monotonic()
    assert leadership.leading()
    assert before + 9 < leadership.may_write_until() <= after + 10
    slept[0] = 3600.0
    assert not leadership.leading()
    assert leadership.may_write_until() < clock.monotonic() - 3000
    leadership.try_acquire_or_renew()
    assert leadership.leading()


def test_who_hears_of_each_renewal_asks_for_none() -> None:
    """It leads as soon as the Lease is given back, or has run out; it asks if the watch breaks."""
    times = ElectionTimes(lease_duration=2.0, renew_deadline=1.5, retry_period=0.02)
    lease, told = FakeLease(Lease(LeaseRecord("b", 2.0, version="1"), {})), Told()
    leadership = Leadership(lease, "a", times, observer=told)
    leadership.watching = lambda: True
    leadership.start()
    told.wait_for(Role.FOLLOWER)
    leadership.hear(lease.present)
    time.sleep(0.3)
    reads = lease.reads
    time.sleep(0.5)
    assert (lease.reads, lease.writes) == (reads, 0)
    leadership.watching = lambda: False
    wait_until("it asks", lambda: lease.reads > reads + 3)
    leadership.watching = lambda: True
    renewed = clock.monotonic()
    lease.present = Lease(LeaseRecord("b", 2.0, renewed=1.0, version="2"), {})
    leadership.hear(lease.present)
    reads = lease.reads
    assert 1.9 < told.wait_for(Role.LEADER) - renewed < 5
    assert lease.reads > reads, "a Lease that ran out is read before it is taken"
    leadership.close()


def test_who_gets_no_answer_takes_no_lease_that_ran_out() -> None:
    """Its request might be carried out, and the others would wait for it."""
    passed, lease = [0.0], FakeLease(Lease(LeaseRecord("b", 15.0, version="1"), {}))
    leadership = Leadership(lease, "a", ElectionTimes(), steady=lambda: clock.steady() + passed[0])
    leadership.watching = lambda: True
    leadership.hear(lease.present)
    leadership.process_heard()
    passed[0] = 16.0
    lease.unread = Failure("no answer came", transient=True, uncertain=True)
    leadership.try_acquire_or_renew()
    assert (lease.writes, leadership.leading()) == (0, False)
    lease.unread = None
    leadership.try_acquire_or_renew()
    assert leadership.leading()


def test_the_name_of_the_holder_is_short_and_printable() -> None:
    """Whoever may write the Lease may write anything into it."""
    told, holder = Told(), "b\n\x1b[2J" + "x" * 1_000_000
    foreign = FakeLease(Lease(LeaseRecord(holder, 15.0, version="1"), {}))
    leadership = Leadership(foreign, "a", ElectionTimes(), observer=told)
    leadership.try_acquire_or_renew()
    ((standing, sentence),) = told.changes
    assert standing is Role.FOLLOWER
    assert r" is held by b \x1b[2Jxxx" in sentence
    assert sentence.isprintable()
    assert len(sentence) < 400


def test_who_leads_is_known_as_long_as_the_lease_lasts() -> None:
    """This process, another one, and nobody once the Lease has run out or was deleted."""
    passed, lease = [0.0], FakeLease(Lease(LeaseRecord("b", 15.0, version="1"), {}))
    leadership = Leadership(lease, "a", ElectionTimes(), steady=lambda: clock.steady() + passed[0])
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False, holder="b")
    lease.present = None
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)
    passed[0] = 16.0
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu") == ClusterLeader("eu", leading=True, holder="a")
    passed[0] += 11.0
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)
    lease.present = Lease(LeaseRecord("b", 15.0, version="2"), {})
    lease.failure = Failure("conflict", status=409)
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu").holder == "b"
    passed[0] += 16.0
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)


def test_a_lost_lease_is_told_again_when_the_cause_is_another_one() -> None:
    """Else the operator would look for a slow server where a right is missing."""
    passed, told, lease = [0.0], Told(), FakeLease()
    leadership = Leadership(
        lease, "a", ElectionTimes(), steady=lambda: clock.steady() + passed[0], observer=told
    )
    leadership.try_acquire_or_renew()
    failures = [Failure(f"no answer within 0.{n} s") for n in (4, 5)]
    failures += [Failure("leases is forbidden", status=403)] * 2
    for lease.failure in failures:
        passed[0] += 11.0
        leadership.try_acquire_or_renew()
    assert told.standings == [Role.LEADER, Role.LOST, Role.LOST]
    assert told.changes[1][1].endswith(": no answer within 0.4 s")
    assert told.changes[2][1].endswith(": leases is forbidden")


def test_a_defect_does_not_end_the_election() -> None:
    """It is told, the gate stays as it was, and the next turn comes."""
    times = ElectionTimes(lease_duration=2, renew_deadline=1, retry_period=0.02)
    broken = threading.Event()

    class Broken(Told):
        def role_changed(self, role: Role, sentence: str) -> None:
            if not broken.is_set():
                broken.set()
                raise KeyError("a defect")
            super().role_changed(role, sentence)

    told = Broken()
    leadership = Leadership(FakeLease(), "a", times, observer=told)
    leadership.start()
    wait_until("the defect is told", lambda: told.faults)
    leadership.close()
    assert isinstance(told.faults[0], KeyError)
    told.wait_for(Role.RESIGNED)


def test_no_two_processes_have_one_identity() -> None:
    """Also where they were given the same name."""
    names = {unique("autoscaler") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("autoscaler_") for name in names)
