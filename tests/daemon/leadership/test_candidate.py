"""One candidate by itself: clocks that are set or stand still, failures, and defects."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import cast

from autoscaler import clock
from autoscaler.kubernetes import Api, Failure, Lease, Leases
from autoscaler.kubernetes.election import ClusterLeader, ElectionTimes, LeaseRecord
from autoscaler.kubernetes.leadership import Leadership, Role, unique
from tests.daemon.leadership.conftest import Recorded
from tests.narrowing import assert_parts
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


def asleep() -> tuple[list[float], Callable[[], float]]:
    """Return the seconds that a machine slept, and its steady clock."""
    slept = [0.0]
    return slept, lambda: clock.steady() + slept[0]


def test_a_leader_whose_machine_slept_does_not_lead_until_it_renews() -> None:
    slept, steady = asleep()
    leadership = Leadership(FakeLease(), "a", ElectionTimes(), steady=steady)
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


def test_a_candidate_that_watches_the_lease_does_not_read_it() -> None:
    times = ElectionTimes(lease_duration=2.0, renew_deadline=1.5, retry_period=0.02)
    lease, recorded = FakeLease(Lease(LeaseRecord("b", 2.0, version="1"), {})), Recorded()
    leadership = Leadership(lease, "a", times, observer=recorded)
    leadership.watching = lambda: True
    leadership.start()
    recorded.wait_for(Role.FOLLOWER)
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
    assert 1.9 < recorded.wait_for(Role.LEADER) - renewed < 5
    assert lease.reads > reads, "a Lease that ran out is read before it is taken"
    leadership.close()


def test_an_expired_lease_is_not_taken_without_an_answer() -> None:
    """Its request might be carried out, and the others would wait for it."""
    slept, steady = asleep()
    lease = FakeLease(Lease(LeaseRecord("b", 15.0, version="1"), {}))
    leadership = Leadership(lease, "a", ElectionTimes(), steady=steady)
    leadership.watching = lambda: True
    leadership.hear(lease.present)
    leadership.process_heard()
    slept[0] = 16.0
    lease.unread = Failure("no answer came", transient=True, uncertain=True)
    leadership.try_acquire_or_renew()
    assert (lease.writes, leadership.leading()) == (0, False)
    lease.unread = None
    leadership.try_acquire_or_renew()
    assert leadership.leading()


def test_the_name_of_the_holder_is_short_and_printable() -> None:
    recorded, holder = Recorded(), "b\n\x1b[2J" + "x" * 1_000_000
    foreign = FakeLease(Lease(LeaseRecord(holder, 15.0, version="1"), {}))
    leadership = Leadership(foreign, "a", ElectionTimes(), observer=recorded)
    leadership.try_acquire_or_renew()
    assert recorded.roles == [Role.FOLLOWER]
    assert_parts(*recorded.messages, r"b \x1b[2Jxxx")
    assert all(message.isprintable() and len(message) < 400 for message in recorded.messages)


def test_the_leader_is_known_while_its_lease_lasts() -> None:
    slept, steady = asleep()
    lease = FakeLease(Lease(LeaseRecord("b", 15.0, version="1"), {}))
    leadership = Leadership(lease, "a", ElectionTimes(), steady=steady)
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False, holder="b")
    lease.present = None
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)
    slept[0] = 16.0
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu") == ClusterLeader("eu", leading=True, holder="a")
    slept[0] += 11.0
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)
    lease.present = Lease(LeaseRecord("b", 15.0, version="2"), {})
    lease.failure = Failure("conflict", status=409)
    leadership.try_acquire_or_renew()
    assert leadership.leader("eu").holder == "b"
    slept[0] += 16.0
    assert leadership.leader("eu") == ClusterLeader("eu", leading=False)


def test_a_lost_lease_is_reported_again_for_another_cause() -> None:
    (slept, steady), recorded, lease = asleep(), Recorded(), FakeLease()
    leadership = Leadership(lease, "a", ElectionTimes(), steady=steady, observer=recorded)
    leadership.try_acquire_or_renew()
    failures = [Failure(f"time-out 0.{n}") for n in (4, 5)]
    failures += [Failure("forbidden", status=403)] * 2
    for lease.failure in failures:
        slept[0] += 11.0
        leadership.try_acquire_or_renew()
    assert recorded.roles == [Role.LEADER, Role.LOST, Role.LOST]
    for message, cause in zip(recorded.messages[1:], ("time-out 0.4", "forbidden"), strict=True):
        assert message.endswith(cause)


def test_a_defect_does_not_end_the_election() -> None:
    times = ElectionTimes(lease_duration=2, renew_deadline=1, retry_period=0.02)
    broken = threading.Event()

    class Broken(Recorded):
        def role_changed(self, role: Role, sentence: str) -> None:
            if not broken.is_set():
                broken.set()
                raise KeyError("a defect")
            super().role_changed(role, sentence)

    recorded = Broken()
    leadership = Leadership(FakeLease(), "a", times, observer=recorded)
    leadership.start()
    wait_until("the defect", lambda: recorded.faults)
    leadership.close()
    assert isinstance(recorded.faults[0], KeyError)
    recorded.wait_for(Role.RESIGNED)


def test_two_processes_of_one_name_have_different_identities() -> None:
    names = {unique("autoscaler") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("autoscaler_") for name in names)
