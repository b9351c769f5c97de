"""Two processes that write whenever they may: by the API server's log no two ever do at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from autoscaler import clock
from autoscaler.kubernetes.election import ElectionTimes
from autoscaler.kubernetes.leadership import Role
from tests.daemon.leadership.audit import Audit
from tests.daemon.leadership.conftest import SLACK
from tests.daemon.leadership.processes import WriterProcess
from tests.daemon.leadership.shop import Shop
from tests.worlds.controlplane.credentials import write_kubeconfig
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.proxies.tcp import TcpProxy
from tests.worlds.waiting import wait_until

TIMES = ElectionTimes(lease_duration=6.0, renew_deadline=3.0, retry_period=0.2)
"""A busy machine, and writers who keep it so, neither end a lease nor bring two close together."""
USERS, DEPLOYMENTS = ("left", "right"), 4
MANY = 20
"""Writes that show that somebody writes."""

Start = Callable[..., WriterProcess]


@pytest.fixture
def start(audited_plane: ControlPlane, shop: Shop, tmp_path: Path) -> Iterator[Start]:
    """Start writers, each with Deployments of its own, which are killed after the test."""
    names = {user: [f"{user}-{number}" for number in range(DEPLOYMENTS)] for user in USERS}
    for name in chain(*names.values()):
        shop.deploy(name)
    with ExitStack() as stack:

        def start(
            user: str,
            times: ElectionTimes = TIMES,
            url: str = audited_plane.url,
            pause: float = 0.0,
        ) -> WriterProcess:
            kubeconfig = tmp_path / f"{user}.kubeconfig"
            token = audited_plane.token_for(user)
            write_kubeconfig(kubeconfig, url, audited_plane.ca_file, token)
            own = names[user]
            writer = WriterProcess(kubeconfig, shop.namespace, user, own, times, pause)
            return stack.enter_context(writer)

        yield start


@pytest.fixture
def proxy(audited_plane: ControlPlane) -> Iterator[TcpProxy]:
    """Put a proxy before the API server."""
    with TcpProxy(audited_plane.url) as proxy:
        yield proxy


def led(start: Start, audit: Audit, **leader_: Any) -> tuple[WriterProcess, WriterProcess]:
    """Start a leader that writes and a follower that does not."""
    leader = start("left", **leader_)
    leader.wait_role(Role.LEADER)
    follower = start("right")
    follower.wait_role(Role.FOLLOWER)
    await_writes(audit, leader)
    assert audit.scales()["right"] == 0
    return leader, follower


def await_writes(audit: Audit, writer: WriterProcess) -> None:
    """Wait until somebody has written some scales more."""
    enough = audit.scales()[writer.identity] + MANY
    wait_until(f"{writer.identity} writes", lambda: audit.scales()[writer.identity] >= enough)


def test_a_stopped_leader_writes_nothing_after_another_took_over(
    start: Start, audit: Audit
) -> None:
    """SIGSTOP for longer than the lease, in the middle of writes, one after the other."""
    leader, follower = led(start, audit)
    for _ in range(2):
        stopped = clock.monotonic()
        os.kill(leader.pid, signal.SIGSTOP)
        took = follower.wait_role(Role.LEADER, after=stopped)
        assert took - stopped < TIMES.lease_duration + 2 * TIMES.retry_period + SLACK
        os.kill(leader.pid, signal.SIGCONT)
        leader.wait_role(Role.FOLLOWER, after=took)
        leader, follower = follower, leader
        await_writes(audit, leader)
    assert leader.stop() == follower.stop() == 0
    audit.scales_by_holders()


def test_a_leader_that_is_stopped_while_it_connects_writes_nothing_later(
    start: Start, audit: Audit, proxy: TcpProxy
) -> None:
    """The gate was open when the connection was begun; it is shut when the body would be sent."""
    leader, follower = led(start, audit, url=proxy.url, pause=0.1)
    # Between two writes, so that the next ones begin with a connection.
    proxy.cut()
    proxy.hold()
    proxy.mend()
    proxy.wait_held(DEPLOYMENTS)
    os.kill(leader.pid, signal.SIGSTOP)
    took = follower.wait_role(Role.LEADER)
    proxy.release()
    # The handshakes of TLS have their answers then, and are over as soon as it goes on.
    proxy.wait_answered(DEPLOYMENTS)
    os.kill(leader.pid, signal.SIGCONT)
    leader.wait_role(Role.FOLLOWER, after=took)
    await_writes(audit, follower)
    assert leader.stop() == follower.stop() == 0
    audit.scales_by_holders()


def test_a_leader_that_is_cut_off_writes_nothing_after_another_took_over(
    start: Start, audit: Audit, proxy: TcpProxy
) -> None:
    """Its packets get lost, also those on their way; connected again, it follows."""
    leader, follower = led(start, audit, url=proxy.url)
    lost = clock.monotonic()
    proxy.hold()
    took = follower.wait_role(Role.LEADER)
    assert took - lost < TIMES.lease_duration + 2 * TIMES.retry_period + SLACK
    assert leader.wait_role(Role.LOST) < took
    proxy.cut()
    proxy.release()
    proxy.mend()
    leader.wait_role(Role.FOLLOWER)
    await_writes(audit, follower)
    assert leader.stop() == follower.stop() == 0
    audit.scales_by_holders()


def test_by_default_a_dead_leader_is_replaced_within_20_seconds(start: Start, audit: Audit) -> None:
    """15 s of its lease, and at most 2.4 s until a renewal is seen; after SIGTERM at once."""
    times = ElectionTimes()
    leader = start("left", times)
    leader.wait_role(Role.LEADER)
    follower = start("right", times)
    follower.wait_role(Role.FOLLOWER)
    killed = clock.monotonic()
    leader.kill()
    took = follower.wait_role(Role.LEADER, seconds=25) - killed
    assert 10 < took < 20
    third = start("left", times)
    third.wait_role(Role.FOLLOWER)
    stopped = clock.monotonic()
    assert follower.stop() == 0
    assert third.wait_role(Role.LEADER) - stopped < times.retry_period * 1.2 + 2 * SLACK
    assert third.stop() == 0
    audit.scales_by_holders()
