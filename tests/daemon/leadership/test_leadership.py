"""Candidates on a real API server: who leads, when it ends, which rights they need.

And what operators are told.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import groupby

import pytest

from autoscaler import clock
from autoscaler.kubernetes.election import ElectionTimes
from autoscaler.kubernetes.leadership import Leadership, Role
from tests.daemon.leadership.conftest import PATIENT, QUICK, SLACK, Told
from tests.worlds.cluster import manifests
from tests.worlds.cluster.roles import grant
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.proxies.tcp import TcpProxy
from tests.worlds.waiting import wait_until

Stand = Callable[..., tuple[Leadership, Told]]

APART = ElectionTimes(lease_duration=5.0, renew_deadline=2.0, retry_period=0.2)
"""With time between the end of one and the beginning of another, in which a machine may pause."""


@pytest.fixture
def lease(namespace: str) -> str:
    return f"{manifests.leases(namespace)}/autoscaler"


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
    first, told = stand("a", Role.LEADER)
    assert first.leading()
    left = first.may_write_until() - clock.monotonic()
    assert 0 < left <= PATIENT.renew_deadline
    second, others = stand("b", Role.FOLLOWER)
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
    first, told = stand("a", Role.LEADER)
    second, others = stand("b", Role.FOLLOWER)
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


def test_a_lease_that_is_deleted_or_annotated_stays_with_its_holder(
    stand: Stand, admin_api: Api, lease: str
) -> None:
    """It is made again by the holder, and the follower does not take it meanwhile."""
    times = ElectionTimes(lease_duration=5.0, renew_deadline=4.0, retry_period=0.2)
    first, told = stand("a", Role.LEADER, times=times)
    _, others = stand("b", Role.FOLLOWER, times=times)
    admin_api.patch(lease, {"metadata": {"annotations": {"note": "by hand"}}})
    version = admin_api.get(lease)["metadata"]["resourceVersion"]
    wait_until("a renewal", lambda: admin_api.get(lease)["metadata"]["resourceVersion"] != version)
    assert admin_api.get(lease)["metadata"]["annotations"] == {"note": "by hand"}
    uid = admin_api.get(lease)["metadata"]["uid"]
    admin_api.delete(lease)
    leads_for(first, times.lease_duration + 0.5)
    found = admin_api.get(lease)
    assert found["metadata"]["uid"] != uid
    assert (found["spec"]["holderIdentity"], found["spec"]["leaseTransitions"]) == ("a", 0)
    assert told.standings == [Role.LEADER]
    assert Role.LEADER not in others.standings


def test_a_holder_that_is_replaced_by_hand_stops(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    """By its next renewal, which tells it who holds the Lease."""
    first, told = stand("a", Role.LEADER)
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
    first, told = stand("a", Role.LEADER, url=proxy.url, times=APART)
    _, others = stand("b", Role.FOLLOWER, times=APART)
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
    first, told = stand("a", Role.LEADER, url=proxy.url, times=APART)
    proxy.cut()
    lost = told.wait_for(Role.LOST)
    proxy.mend()
    told.wait_for(Role.LEADER, after=lost)
    assert first.leading()


def test_a_short_break_is_none(stand: Stand, proxy: TcpProxy) -> None:
    """While the Lease lasts there are more tries, each on another connection."""
    first, told = stand("a", Role.LEADER, url=proxy.url)
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
    leadership, told = stand("a", Role.LEADER, url=proxy.url, times=times)
    proxy.hold()
    began = clock.monotonic()
    leadership.close()
    assert clock.monotonic() - began < 3 + SLACK
    assert not leadership.leading()
    assert "could not be freed: " in told.changes[-1][1]


# -- rights --------------------------------------------------------------------------------------


_grant = partial(grant, user="nobody")


def _rule(*verbs: str, names: list[str] | None = None) -> Json:
    rule: Json = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    return rule if names is None else rule | {"resourceNames": names}


def test_who_is_refused_says_so_once_and_tries_again(
    stand: Stand, admin_api: Api, namespace: str
) -> None:
    """The sentence names user, verb and resource; with the least rights the Lease is taken."""
    candidate, told = stand("a", user="nobody")
    refused = told.wait_for(Role.UNREADABLE)
    assert not candidate.leading()
    sentence = (
        f"the Lease {namespace}/autoscaler cannot be used, and this process does not lead: "
        'leases.coordination.k8s.io "autoscaler" is forbidden: User "nobody" cannot get resource '
        f'"leases" in API group "coordination.k8s.io" in the namespace "{namespace}"'
    )
    assert told.changes == [(Role.UNREADABLE, sentence)]
    own = _rule("get", "update", names=["autoscaler"])
    _grant(admin_api, namespace, "elect", own, _rule("create"))
    told.wait_for(Role.LEADER, after=refused)
    # The API server may know the binding before the role, and then says so in other words.
    assert [item for item, _ in groupby(told.standings)] == [Role.UNREADABLE, Role.LEADER]
    assert candidate.leading()


def test_a_lease_that_is_there_needs_no_right_to_make_one(
    stand: Stand, admin_api: Api, namespace: str
) -> None:
    """To get and update that one are enough, also when it has no spec yet."""
    admin_api.create(manifests.leases(namespace), {"metadata": {"name": "autoscaler"}})
    _grant(admin_api, namespace, "elect", _rule("get", "update", names=["autoscaler"]))
    candidate, _ = stand("a", Role.LEADER, user="nobody")
    assert candidate.leading()


@pytest.mark.parametrize(
    ("verbs", "verb"),
    [(("get", "update"), "create"), (("get", "create"), "update"), (("create",), "get")],
)
def test_each_right_is_needed(
    stand: Stand, admin_api: Api, namespace: str, verbs: tuple[str, ...], verb: str
) -> None:
    """Without one of the three nobody leads for long, and the sentence says which is missing."""
    _grant(admin_api, namespace, "elect", _rule(*verbs))
    _, told = stand("a", user="nobody", times=QUICK)

    def missing() -> bool:
        return any(f"cannot {verb} resource" in sentence for _, sentence in told.changes)

    wait_until(f"{verb} is missed", missing)
