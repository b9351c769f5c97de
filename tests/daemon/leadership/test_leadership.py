"""Candidates on a real API server: who leads, when it ends, which rights they need.

And what operators see of it.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import groupby

import pytest

from autoscaler import clock
from autoscaler.kubernetes.election import ElectionTimes
from autoscaler.kubernetes.leadership import Leadership, Role
from tests.daemon.leadership.conftest import PATIENT, QUICK, SLACK, Recorded
from tests.narrowing import assert_parts
from tests.worlds.cluster import manifests
from tests.worlds.cluster.roles import grant
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.proxies.tcp import TcpProxy
from tests.worlds.waiting import wait_until

Stand = Callable[..., tuple[Leadership, Recorded]]

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
    first, recorded = stand("a", Role.LEADER)
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
    assert (recorded.roles, others.roles) == ([Role.LEADER], [Role.FOLLOWER])
    for message in (*recorded.messages, *others.messages):
        assert_parts(message, f"{namespace}/autoscaler", "a")
    assert second.reported == (Role.FOLLOWER, *others.messages)


def test_a_deleted_or_annotated_lease_stays_with_its_holder(
    stand: Stand, admin_api: Api, lease: str
) -> None:
    times = ElectionTimes(lease_duration=5.0, renew_deadline=4.0, retry_period=0.2)
    first, recorded = stand("a", Role.LEADER, times=times)
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
    assert recorded.roles == [Role.LEADER]
    assert Role.LEADER not in others.roles


def test_a_holder_that_is_replaced_by_hand_stops(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    first, recorded = stand("a", Role.LEADER)
    admin_api.patch(lease, {"spec": {"holderIdentity": "operator"}})
    recorded.wait_for(Role.FOLLOWER)
    assert not first.leading()
    assert_parts(recorded.messages[-1], f"{namespace}/autoscaler", "operator")


@pytest.mark.parametrize("fault", ["cut", "hold"])
def test_a_leader_that_cannot_renew_stops_before_another_starts(
    stand: Stand, proxy: TcpProxy, fault: str
) -> None:
    first, recorded = stand("a", Role.LEADER, url=proxy.url, times=APART)
    _, others = stand("b", Role.FOLLOWER, times=APART)
    getattr(proxy, fault)()
    broken = clock.monotonic()
    ended = end_of(first, broken + APART.renew_deadline)
    lost = recorded.wait_for(Role.LOST)
    assert lost - ended < SLACK
    began = others.wait_for(Role.LEADER)
    assert began > ended
    assert began - broken < APART.lease_duration + 2 * APART.retry_period + SLACK
    (proxy.mend if fault == "cut" else proxy.release)()
    recorded.wait_for(Role.FOLLOWER)
    assert recorded.roles == [Role.LEADER, Role.LOST, Role.FOLLOWER]
    assert_parts(recorded.messages[1], "2 s", proxy.url)


def test_a_leader_that_is_cut_off_for_a_moment_leads_on(stand: Stand, proxy: TcpProxy) -> None:
    first, recorded = stand("a", Role.LEADER, url=proxy.url)
    proxy.cut()
    leads_for(first, 5 * PATIENT.retry_period)
    until = first.may_write_until()
    proxy.mend()
    wait_until("a renewal", lambda: first.may_write_until() > until + PATIENT.retry_period)
    assert first.leading()
    assert recorded.roles == [Role.LEADER]


def test_close_returns_while_the_server_hangs(stand: Stand, proxy: TcpProxy) -> None:
    # A renewal that hangs would leave it unsure of the Lease, and then there is nothing to free.
    times = ElectionTimes(lease_duration=15.0, renew_deadline=9.0, retry_period=6.0)
    leadership, recorded = stand("a", Role.LEADER, url=proxy.url, times=times)
    proxy.hold()
    began = clock.monotonic()
    leadership.close()
    assert clock.monotonic() - began < 3 + SLACK
    assert not leadership.leading()
    assert recorded.roles[-1] is Role.RESIGNED
    assert_parts(recorded.messages[-1], proxy.url)


# -- rights --------------------------------------------------------------------------------------


_grant = partial(grant, user="nobody")


def _rule(*verbs: str, names: list[str] | None = None) -> Json:
    rule: Json = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    return rule if names is None else rule | {"resourceNames": names}


def test_a_candidate_without_rights_reports_it_once_and_tries_again(
    stand: Stand, admin_api: Api, namespace: str
) -> None:
    candidate, recorded = stand("a", user="nobody")
    refused = recorded.wait_for(Role.UNREADABLE)
    assert not candidate.leading()
    assert recorded.roles == [Role.UNREADABLE]
    assert_parts(*recorded.messages, f"{namespace}/autoscaler", '"nobody"', "get", '"leases"')
    own = _rule("get", "update", names=["autoscaler"])
    _grant(admin_api, namespace, "elect", own, _rule("create"))
    recorded.wait_for(Role.LEADER, after=refused)
    # The API server may know the binding before the role, and then says so in other words.
    assert [item for item, _ in groupby(recorded.roles)] == [Role.UNREADABLE, Role.LEADER]
    assert candidate.leading()


def test_an_existing_lease_without_a_spec_is_taken_at_once(
    stand: Stand, admin_api: Api, namespace: str, lease: str
) -> None:
    labels = {"app": "autoscaler"}
    bare = {"metadata": {"name": "autoscaler", "labels": labels}}
    admin_api.create(manifests.leases(namespace), bare)
    _grant(admin_api, namespace, "elect", _rule("get", "update", names=["autoscaler"]))
    began = clock.monotonic()
    candidate, _ = stand("a", Role.LEADER, user="nobody")
    assert candidate.leading()
    assert clock.monotonic() - began < PATIENT.lease_duration * 0.75
    taken = admin_api.get(lease)
    assert (taken["metadata"]["labels"], taken["spec"]["holderIdentity"]) == (labels, "a")


@pytest.mark.parametrize(
    ("verbs", "verb"),
    [(("get", "update"), "create"), (("get", "create"), "update"), (("create",), "get")],
)
def test_each_right_is_needed(
    stand: Stand, admin_api: Api, namespace: str, verbs: tuple[str, ...], verb: str
) -> None:
    _grant(admin_api, namespace, "elect", _rule(*verbs))
    _, recorded = stand("a", user="nobody", times=QUICK)

    def missing() -> bool:
        return any(f" {verb} resource" in message for message in recorded.messages)

    wait_until(f"{verb} is missed", missing)
