"""Candidates on a real API server: who leads, when it ends, and what operators are told."""

import time
from collections.abc import Callable

import pytest

from autoscaler import clock
from autoscaler.core.election import ElectionTimes
from autoscaler.daemon.leadership import Leadership, Role
from tests.controlplane.api import Api
from tests.controlplane.waiting import wait_until
from tests.daemon.leadership.conftest import PATIENT, QUICK, SLACK
from tests.daemon.leadership.proxy import TcpProxy
from tests.daemon.leadership.told import Told

Stand = Callable[..., tuple[Leadership, Told]]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
APART = ElectionTimes(lease_duration=5.0, renew_deadline=2.0, retry_period=0.2)
"""With time between the end of one and the beginning of another, in which a machine may pause."""


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


def end_of(leadership: Leadership, latest: float) -> float:
    """Look all the time until somebody leads no more, and return when that ended.

    It is when the gate itself said that it would: a look may come late.
    """
    until = leadership.may_write_until()
    while True:
        looked = clock.monotonic()
        if not leadership.leading():
            return until
        assert looked < latest
        until = leadership.may_write_until()
        time.sleep(0.001)


def test_the_first_leads_and_the_second_follows(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    """Each is told so once, with the holder's name; the leader knows how long it may write."""
    first, told = stand("a")
    told.wait_for(Role.LEADER)
    assert first.leading()
    left = first.may_write_until() - clock.monotonic()
    assert 0 < left <= PATIENT.renew_deadline
    second, others = stand("b")
    others.wait_for(Role.FOLLOWER)
    assert not second.leading()
    assert second.may_write_until() < clock.monotonic()
    before = admin_api.get(lease)["spec"]
    wait_until("renewals", lambda: admin_api.get(lease)["spec"]["renewTime"] > before["renewTime"])
    after = admin_api.get(lease)["spec"]
    assert {**after, "renewTime": ""} == {**before, "renewTime": ""}
    assert (before["holderIdentity"], before["leaseTransitions"]) == ("a", 0)
    named = f"the Lease {namespace}/autoscaler is held by"
    assert told.changes == [(Role.LEADER, f"{named} this process, a")]
    assert others.changes == [(Role.FOLLOWER, f"{named} a")]
    assert second.reported == others.changes[0]


def test_who_stops_in_good_order_is_followed_at_once(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    """Within about a retry period, not a lease duration; it is one transition."""
    first, told = stand("a")
    told.wait_for(Role.LEADER)
    second, others = stand("b")
    others.wait_for(Role.FOLLOWER)
    stopped = clock.monotonic()
    first.close()
    assert not first.leading()
    took = others.wait_for(Role.LEADER) - stopped
    assert took < PATIENT.lease_duration * 0.75
    assert second.leading()
    assert told.changes[-1] == (
        Role.RESIGNED,
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
    _, told = stand("a", times=QUICK)
    waited = told.wait_for(Role.LEADER) - began
    assert 3 <= waited < 3 + 2 * QUICK.retry_period + SLACK
    assert told.standings == [Role.FOLLOWER, Role.LEADER]


def test_a_lease_that_is_deleted_or_annotated_stays_with_its_holder(
    stand: Stand, admin_api: Api, lease: str
) -> None:
    """It is made again by the holder, and the follower does not take it meanwhile."""
    times = ElectionTimes(lease_duration=5.0, renew_deadline=4.0, retry_period=0.2)
    first, told = stand("a", times=times)
    told.wait_for(Role.LEADER)
    _, others = stand("b", times=times)
    others.wait_for(Role.FOLLOWER)
    admin_api.patch(lease, {"metadata": {"annotations": {"note": "by hand"}}})
    version = admin_api.get(lease)["metadata"]["resourceVersion"]
    wait_until("a renewal", lambda: admin_api.get(lease)["metadata"]["resourceVersion"] != version)
    assert admin_api.get(lease)["metadata"]["annotations"] == {"note": "by hand"}
    uid = admin_api.get(lease)["metadata"]["uid"]
    admin_api.delete(lease)
    leads_for(first, times.lease_duration + 0.5)
    found = admin_api.get(lease)
    assert found["metadata"]["uid"] != uid
    assert found["spec"]["holderIdentity"] == "a"
    assert told.standings == [Role.LEADER]
    assert Role.LEADER not in others.standings


def test_a_holder_that_is_replaced_by_hand_stops(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    """By its next renewal, which tells it who holds the Lease."""
    first, told = stand("a")
    told.wait_for(Role.LEADER)
    admin_api.patch(lease, {"spec": {"holderIdentity": "operator"}})
    told.wait_for(Role.FOLLOWER)
    assert not first.leading()
    assert told.changes[-1][1] == (
        f"the Lease {namespace}/autoscaler is held by operator; this process has lost it"
    )


@pytest.mark.parametrize("fault", ["cut", "hold"])
def test_who_cannot_renew_stops_before_another_starts(
    stand: Stand, proxy: TcpProxy, fault: str
) -> None:
    """It is told once, with the reason, when its time is over; mended, it follows or leads."""
    first, told = stand("a", url=proxy.url, times=APART)
    told.wait_for(Role.LEADER)
    _, others = stand("b", times=APART)
    others.wait_for(Role.FOLLOWER)
    getattr(proxy, fault)()
    broken = clock.monotonic()
    ended = end_of(first, broken + APART.renew_deadline)
    lost = told.wait_for(Role.LOST)
    assert lost - ended < SLACK
    began = others.wait_for(Role.LEADER)
    assert began > ended
    assert began - broken < APART.lease_duration + 2 * APART.retry_period + SLACK
    (proxy.mend if fault == "cut" else proxy.release)()
    told.wait_for(Role.FOLLOWER)
    assert told.standings == [Role.LEADER, Role.LOST, Role.FOLLOWER]
    sentence = told.changes[1][1]
    assert "could not be renewed for 2 s, and nothing is written until it is: " in sentence
    assert proxy.url in sentence


def test_a_holder_that_nobody_replaced_leads_again(stand: Stand, proxy: TcpProxy) -> None:
    """As soon as it can renew."""
    first, told = stand("a", url=proxy.url, times=APART)
    told.wait_for(Role.LEADER)
    proxy.cut()
    lost = told.wait_for(Role.LOST)
    proxy.mend()
    told.wait_for(Role.LEADER, after=lost)
    assert first.leading()


def test_a_short_break_is_none(stand: Stand, proxy: TcpProxy) -> None:
    """While the Lease lasts there are more tries, each on another connection."""
    first, told = stand("a", url=proxy.url)
    told.wait_for(Role.LEADER)
    proxy.cut()
    leads_for(first, 5 * PATIENT.retry_period)
    until = first.may_write_until()
    proxy.mend()
    wait_until("a renewal", lambda: first.may_write_until() > until + PATIENT.retry_period)
    assert first.leading()
    assert told.standings == [Role.LEADER]


def test_close_returns_while_the_server_hangs(stand: Stand, proxy: TcpProxy) -> None:
    """And says that the Lease could not be given back, as the others will have to wait."""
    # A renewal that hangs would leave it unsure of the Lease, and then there is nothing to free.
    times = ElectionTimes(lease_duration=15.0, renew_deadline=9.0, retry_period=6.0)
    leadership, told = stand("a", url=proxy.url, times=times)
    told.wait_for(Role.LEADER)
    proxy.hold()
    began = clock.monotonic()
    leadership.close()
    assert clock.monotonic() - began < 3 + SLACK
    assert not leadership.leading()
    assert "could not be freed: " in told.changes[-1][1]
