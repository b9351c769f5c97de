"""Candidates on a real API server: who leads, when it ends, and what operators are told."""

import threading
import time
from collections.abc import Callable

import pytest

from autoscaler import clock
from autoscaler.adapters.cluster import Failure, Lease
from autoscaler.core.election import ElectionTimes, LeaseRecord
from autoscaler.daemon.leadership import Leadership, Standing, unique
from tests.controlplane.api import Api
from tests.controlplane.waiting import wait_until
from tests.leadership.conftest import QUICK, SLACK
from tests.leadership.proxy import TcpProxy
from tests.leadership.told import Told

Stand = Callable[..., tuple[Leadership, Told]]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@pytest.fixture
def lease(namespace: str) -> str:
    """Return the path of the Lease."""
    return f"{LEASES.format(namespace)}/autoscaler"


def leads_for(leadership: Leadership, seconds: float) -> None:
    """Look all the time whether somebody leads."""
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        assert leadership.leading()
        time.sleep(0.005)


def test_the_first_leads_and_the_second_follows(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    """Each is told so once, with the holder's name; the leader knows how long it may write."""
    first, told = stand("a")
    told.wait_for(Standing.LEADER)
    assert first.leading()
    left = first.may_write_until() - clock.monotonic()
    assert 0 < left <= QUICK.renew_deadline
    second, others = stand("b")
    others.wait_for(Standing.FOLLOWER)
    assert not second.leading()
    assert second.may_write_until() < clock.monotonic()
    before = admin_api.get(lease)["spec"]
    wait_until("renewals", lambda: admin_api.get(lease)["spec"]["renewTime"] > before["renewTime"])
    after = admin_api.get(lease)["spec"]
    assert {**after, "renewTime": ""} == {**before, "renewTime": ""}
    assert (before["holderIdentity"], before["leaseTransitions"]) == ("a", 0)
    named = f"the Lease {namespace}/autoscaler is held by"
    assert told.changes == [(Standing.LEADER, f"{named} this process, a")]
    assert others.changes == [(Standing.FOLLOWER, f"{named} a")]
    assert second.standing == others.changes[0]


def test_who_stops_in_good_order_is_followed_at_once(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    """Within about a retry period, not a lease duration; it is one transition."""
    first, told = stand("a")
    told.wait_for(Standing.LEADER)
    second, others = stand("b")
    others.wait_for(Standing.FOLLOWER)
    stopped = clock.monotonic()
    first.close()
    assert not first.leading()
    took = others.wait_for(Standing.LEADER) - stopped
    assert took < QUICK.lease_duration * 0.75
    assert second.leading()
    assert told.changes[-1] == (
        Standing.RESIGNED,
        f"the Lease {namespace}/autoscaler is free for the others",
    )
    spec = admin_api.get(lease)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


def test_a_dead_holder_is_waited_for(stand: Stand, admin_api: Api, namespace: str) -> None:
    """As long as its record says, from when it was first seen, and hardly longer."""
    admin_api.create(
        LEASES.format(namespace),
        {
            "metadata": {"name": "autoscaler"},
            "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 3, "leaseTransitions": 4},
        },
    )
    began = clock.monotonic()
    _, told = stand("a")
    waited = told.wait_for(Standing.LEADER) - began
    assert 3 <= waited < 3 + 2 * QUICK.retry_period + SLACK
    assert told.standings == [Standing.FOLLOWER, Standing.LEADER]


def test_a_lease_that_is_deleted_or_annotated_stays_with_its_holder(
    stand: Stand, admin_api: Api, lease: str
) -> None:
    """It is made again by the holder, and the follower does not take it meanwhile."""
    first, told = stand("a")
    told.wait_for(Standing.LEADER)
    _, others = stand("b")
    others.wait_for(Standing.FOLLOWER)
    admin_api.patch(lease, {"metadata": {"annotations": {"note": "by hand"}}})
    version = admin_api.get(lease)["metadata"]["resourceVersion"]
    wait_until("a renewal", lambda: admin_api.get(lease)["metadata"]["resourceVersion"] > version)
    assert admin_api.get(lease)["metadata"]["annotations"] == {"note": "by hand"}
    uid = admin_api.get(lease)["metadata"]["uid"]
    admin_api.delete(lease)
    leads_for(first, QUICK.lease_duration + 0.5)
    found = admin_api.get(lease)
    assert found["metadata"]["uid"] != uid
    assert found["spec"]["holderIdentity"] == "a"
    assert told.standings == [Standing.LEADER]
    assert Standing.LEADER not in others.standings


def test_a_holder_that_is_replaced_by_hand_stops(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    """By its next renewal, which tells it who holds the Lease."""
    first, told = stand("a")
    told.wait_for(Standing.LEADER)
    admin_api.patch(lease, {"spec": {"holderIdentity": "operator"}})
    told.wait_for(Standing.FOLLOWER)
    assert not first.leading()
    assert told.changes[-1][1] == (
        f"the Lease {namespace}/autoscaler is held by operator; this process has lost it"
    )


@pytest.mark.parametrize("fault", ["cut", "hold"])
def test_who_cannot_renew_stops_before_another_starts(
    stand: Stand, proxy: TcpProxy, fault: str
) -> None:
    """It is told once, with the reason, when its time is over; mended, it follows or leads."""
    first, told = stand("a", url=proxy.url)
    told.wait_for(Standing.LEADER)
    second, others = stand("b")
    others.wait_for(Standing.FOLLOWER)
    broken = clock.monotonic()
    getattr(proxy, fault)()
    ended = wait_until(
        "the gate is shut", lambda: not first.leading() and clock.monotonic(), interval=0.001
    )
    assert ended - broken < QUICK.renew_deadline + SLACK / 4
    assert not second.leading()
    lost = told.wait_for(Standing.LOST)
    assert lost - ended < SLACK
    began = others.wait_for(Standing.LEADER)
    assert began > ended
    assert began - broken < QUICK.lease_duration + 2 * QUICK.retry_period + SLACK
    (proxy.mend if fault == "cut" else proxy.release)()
    told.wait_for(Standing.FOLLOWER)
    assert told.standings == [Standing.LEADER, Standing.LOST, Standing.FOLLOWER]
    sentence = told.changes[1][1]
    assert "could not be renewed for 1.5 s, and nothing is written until it is: " in sentence
    assert proxy.url in sentence


def test_a_holder_that_nobody_replaced_leads_again(stand: Stand, proxy: TcpProxy) -> None:
    """As soon as it can renew."""
    first, told = stand("a", url=proxy.url)
    told.wait_for(Standing.LEADER)
    proxy.cut()
    lost = told.wait_for(Standing.LOST)
    proxy.mend()
    told.wait_for(Standing.LEADER, after=lost)
    assert first.leading()


def test_a_short_break_is_none(stand: Stand, proxy: TcpProxy) -> None:
    """While the Lease lasts there are more tries, each on another connection."""
    first, told = stand("a", url=proxy.url)
    told.wait_for(Standing.LEADER)
    proxy.cut()
    leads_for(first, QUICK.renew_deadline / 2)
    proxy.mend()
    leads_for(first, QUICK.renew_deadline)
    assert told.standings == [Standing.LEADER]


def test_close_returns_while_the_server_hangs(stand: Stand, proxy: TcpProxy) -> None:
    """And says that the Lease could not be given back, as the others will have to wait."""
    leadership, told = stand("a", url=proxy.url)
    told.wait_for(Standing.LEADER)
    proxy.hold()
    began = clock.monotonic()
    leadership.close()
    assert clock.monotonic() - began < 4
    assert not leadership.leading()
    assert "could not be freed: " in told.changes[-1][1]


class FakeLease:
    """Fits `LeaseAccess`: a Lease that takes whatever is written."""

    def read(self, deadline: float) -> Lease | Failure | None:  # noqa: ARG002 - the port's
        """Find none."""
        return None

    def write(self, record: LeaseRecord, over: Lease | None, deadline: float) -> Lease | Failure:  # noqa: ARG002
        """Take it."""
        return Lease(record, {})


def test_a_machine_that_sleeps_does_not_lead_when_it_wakes() -> None:
    """The steady clock has moved on, although the process did not see any of it."""
    slept = [0.0]
    leadership = Leadership(
        FakeLease(), "a", ElectionTimes(), steady=lambda: clock.steady() + slept[0]
    )
    leadership.turn()
    assert leadership.leading()
    assert 9.5 < leadership.may_write_until() - clock.monotonic() <= 10
    slept[0] = 3600.0
    assert not leadership.leading()
    assert leadership.may_write_until() < clock.monotonic() - 3000
    leadership.turn()
    assert leadership.leading()


class FailingLease(FakeLease):
    """One whose writes fail, once a test says how, so that it stays as it was."""

    failure: Failure | None = None
    present: Lease | None = None

    def read(self, deadline: float) -> Lease | Failure | None:  # noqa: ARG002 - the port's
        """Find what was written last."""
        return self.present

    def write(self, record: LeaseRecord, over: Lease | None, deadline: float) -> Lease | Failure:  # noqa: ARG002
        """Take it, or fail."""
        if self.failure is None:
            self.present = Lease(record, {})
            return self.present
        return self.failure


def test_a_lost_lease_is_told_again_when_the_cause_is_another_one() -> None:
    """Else the operator would look for a slow server where a right is missing."""
    passed, told, lease = [0.0], Told(), FailingLease()
    leadership = Leadership(
        lease,
        "a",
        ElectionTimes(),
        steady=lambda: clock.steady() + passed[0],
        on_change=told.change,
    )
    leadership.turn()
    failures = [Failure(f"no answer within 0.{n} s") for n in (4, 5)]
    failures += [Failure("leases is forbidden", status=403)] * 2
    for lease.failure in failures:
        passed[0] += 11.0
        leadership.turn()
    assert told.standings == [Standing.LEADER, Standing.LOST, Standing.LOST]
    assert told.changes[1][1].endswith(": no answer within 0.4 s")
    assert told.changes[2][1].endswith(": leases is forbidden")


def test_a_clock_that_is_set_changes_nothing() -> None:
    """What the clock on the wall shows is written down, and that is all."""
    shown = [1e9]
    leadership = Leadership(FakeLease(), "a", ElectionTimes(), wall=lambda: shown[0])
    leadership.turn()
    shown[0] = 2e9
    assert leadership.leading()
    leadership.turn()
    shown[0] = 0.0
    assert leadership.leading()


def test_a_defect_does_not_end_the_election() -> None:
    """It is told, the gate stays as it was, and the next turn comes."""
    times = ElectionTimes(lease_duration=2, renew_deadline=1, retry_period=0.02)
    broken = threading.Event()
    told = Told()

    def change(standing: Standing, sentence: str) -> None:
        if not broken.is_set():
            broken.set()
            raise KeyError("a defect")
        told.change(standing, sentence)

    leadership = Leadership(FakeLease(), "a", times, on_change=change, on_fault=told.fault)
    leadership.start()
    wait_until("the defect is told", lambda: told.faults)
    leadership.close()
    assert isinstance(told.faults[0], KeyError)
    told.wait_for(Standing.RESIGNED)


def test_no_two_processes_have_one_identity() -> None:
    """Also where they were given the same name."""
    names = {unique("autoscaler") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("autoscaler_") for name in names)
