"""What goes wrong between daemons and clusters, at random: bouts of faults, and quiet between."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from autoscaler import clock
from benchmarks.sharing.bed import Bed, SharingDaemon
from benchmarks.sharing.clusters import SharedCluster
from benchmarks.sharing.judging import Course, Disruption, Pair, Span, clock_of
from tests.worlds.process import ServerFailedError
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Exchange, FaultProxy
from tests.worlds.proxies.wire import Request

Say = Callable[[str], None]
Begin = Callable[[], AbstractContextManager[object]]

_LOOK_SECONDS = 0.1
_START_SECONDS = 120.0
"""How long a daemon may take to start on a machine that does much else."""
_AT_ONCE = 3
"""How many faults there are at a time, at most."""


@dataclass(frozen=True)
class Pace:
    """How long bouts and quiet times are, of which all settles within ``settle``, in seconds.

    ``pause`` is the shortest and the longest time from the begin of one fault to that of the next.
    """

    bout: float = 75.0
    quiet: float = 75.0
    settle: float = 60.0
    pause: Span = (1.0, 8.0)


@dataclass(frozen=True)
class Planned:
    """A fault that is to begin: a block that lasts for so many seconds."""

    what: str
    pairs: frozenset[Pair]
    """Between whom no other fault is to happen meanwhile."""
    seconds: float
    begin: Begin
    leads: bool = False
    """See `Disruption`."""
    able: bool = False
    """Whether all can do their work none the less."""


@dataclass(frozen=True)
class _Under:
    """A fault that has begun."""

    planned: Planned
    begin: float
    block: ExitStack


class Faults:
    """Plays faults on a bed, and keeps what was when."""

    def __init__(self, bed: Bed, seed: int, pace: Pace, say: Say) -> None:
        self._bed = bed
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._pace = pace
        self._say = say
        self._lease = bed.fleet.times.lease
        self._now: list[_Under] = []
        self._past: list[Disruption] = []
        self._quiet: list[Span] = []

    def run(self, seconds: float) -> Course:
        """Play for so long, and then until the last quiet time is over."""
        begin = clock.wall()
        try:
            # What is of the start settles, as after a fault.
            self._rest()
            while clock.wall() < begin + seconds:
                self._bout()
                self._rest()
        finally:
            self._end(float("inf"))
        clusters = self._bed.clusters.values()
        return Course(
            begin=begin,
            end=clock.wall(),
            lease_seconds=self._lease,
            accepted={one.name: one.accepted() for one in clusters},
            starts={one.name: one.starts for one in self._bed.daemons.values()},
            disruptions=self._past,
            deletions=[(at, one.name) for one in clusters for at in one.deleted],
            asked={one.name: list(one.asked) for one in clusters if one.asked is not None},
            quiet=self._quiet,
            settle_seconds=self._pace.settle,
        )

    def _bout(self) -> None:
        until = clock.wall() + self._pace.bout
        next_at = 0.0
        while (now := clock.wall()) < until:
            self._end(now)
            if now >= next_at and len(self._now) < _AT_ONCE:
                next_at = now + self._chance.uniform(*self._pace.pause)
                self._begin(self._planned(), now)
            time.sleep(_LOOK_SECONDS)
        while self._now:
            self._end(clock.wall())
            time.sleep(_LOOK_SECONDS)

    def _rest(self) -> None:
        begin = clock.wall()
        self._say(f"{clock_of(begin)} quiet")
        time.sleep(self._pace.quiet)
        self._quiet.append((begin, clock.wall()))

    def _begin(self, planned: Planned, now: float) -> None:
        if any(planned.pairs & one.planned.pairs for one in self._now):
            return
        self._say(f"{clock_of(now)} {planned.what}, {planned.seconds:.1f} s")
        block = ExitStack()
        block.enter_context(planned.begin())
        self._now.append(_Under(planned, now, block))

    def _end(self, now: float) -> None:
        for one in [one for one in self._now if one.begin + one.planned.seconds <= now]:
            one.block.close()
            self._now.remove(one)
            planned = one.planned
            unable = frozenset() if planned.able else planned.pairs
            self._past.append(
                Disruption(planned.what, unable, one.begin, clock.wall(), planned.leads)
            )

    # -- what there is -----------------------------------------------------------------------

    def _planned(self) -> Planned:
        kinds = (
            self._of_a_process,
            self._of_a_process,
            self._of_ways,
            self._of_ways,
            self._of_ways,
        )
        return self._chance.choice((*kinds, self._of_a_lease))()

    def _of_a_process(self) -> Planned:
        daemon = self._chance.choice([*self._bed.daemons.values()])
        pairs = frozenset((daemon.name, cluster) for cluster in self._bed.clusters)
        away = self._chance.choice((0.1, 0.3, 1.0, 2.0)) * self._lease
        frozen = self._chance.uniform(1.1, 2.5) * self._lease
        what, seconds, begin = self._chance.choice(
            (
                ("kill -9", away, partial(_killed, daemon)),
                ("SIGTERM", away, partial(_ended, daemon)),
                ("SIGSTOP", frozen, partial(_frozen, daemon)),
            )
        )
        return Planned(f"{what} of {daemon.name}", pairs, seconds, begin)

    def _of_ways(self) -> Planned:
        """Break one way, all of a daemon, or all to a cluster."""
        daemon, cluster = self._chance.choice([*self._bed.daemons]), self._cluster()
        leader, every = cluster.holder().partition("_")[0], self._bed.proxies.keys()
        what, pairs = self._chance.choice(
            (
                (f"{daemon} to {cluster.name}", {(daemon, cluster.name)}),
                (f"{leader}, who leads, to {cluster.name}", {(leader, cluster.name)}),
                (f"{daemon} to all", {pair for pair in every if pair[0] == daemon}),
                (f"all to {cluster.name}", {pair for pair in every if pair[1] == cluster.name}),
            )
        )
        pairs &= every
        ways = [self._bed.proxies[pair] for pair in sorted(pairs)]
        lasting = self._chance.uniform(0.2, 2.5) * self._lease
        late = min(1.5, (self._lease - self._bed.fleet.times.renew_deadline) / 3)
        how, seconds, begin, leads = self._chance.choice(
            (
                ("refused", lasting, _refusing, False),
                ("no answers", lasting, _hanging, False),
                ("carried out without an answer", lasting, _deaf, False),
                ("no answers of Leases", lasting, _without_leases, False),
                # Until clients find out that their connections are dead.
                ("half-open", self._lease, _half_open, True),
                ("slow", lasting, partial(_slow, late), True),
            )
        )
        return Planned(f"{how}: {what}", frozenset(pairs), seconds, partial(begin, ways), leads)

    def _of_a_lease(self) -> Planned:
        """Change a Lease by hand while everybody runs.

        A process that is started just after a deletion cannot know of the holder
        (`autoscaler.kubernetes.election`).
        """
        cluster = self._cluster()
        pairs = frozenset((daemon, cluster.name) for daemon in self._bed.daemons)
        edit = partial(cluster.edit_lease, max(1, round(self._lease)))
        what, act = self._chance.choice(
            (("deleted", cluster.delete_lease), ("held by somebody else", edit))
        )
        begin = partial(_done, act)
        return Planned(f"Lease of {cluster.name} {what}", pairs, self._lease / 3, begin, able=True)

    def _cluster(self) -> SharedCluster:
        return self._chance.choice([*self._bed.clusters.values()])


# -- faults of a process --------------------------------------------------------------------------


@contextmanager
def _killed(daemon: SharingDaemon) -> Iterator[None]:
    daemon.process.stop(0)
    yield
    _start(daemon)


@contextmanager
def _ended(daemon: SharingDaemon) -> Iterator[None]:
    daemon.process.terminate()
    yield
    daemon.process.stop(20)
    _start(daemon)


def _start(daemon: SharingDaemon) -> None:
    """Start it and wait until it is ready: until then it cannot lead."""
    daemon.start()
    daemon.process.wait_ready(daemon.ready, _START_SECONDS)


@contextmanager
def _frozen(daemon: SharingDaemon) -> Iterator[None]:
    _signal(daemon, signal.SIGSTOP)
    yield
    _signal(daemon, signal.SIGCONT)


def _signal(daemon: SharingDaemon, number: signal.Signals) -> None:
    pid = daemon.process.pid
    if pid is None:
        raise ServerFailedError(f"daemon {daemon.name} has ended by itself")
    os.kill(pid, number)


# -- faults of ways -------------------------------------------------------------------------------


@contextmanager
def _refusing(ways: Sequence[FaultProxy]) -> Iterator[None]:
    with ExitStack() as stack:
        for way in ways:
            stack.enter_context(way.refusing())
        yield


@contextmanager
def _hanging(ways: Sequence[FaultProxy]) -> Iterator[None]:
    """Carry nothing, in either direction; in the end all connections are reset."""
    with ExitStack() as stack:
        for way in ways:
            stack.callback(way.cut)
            stack.enter_context(way.playing(plays.hang))
            way.silence()
        yield


@contextmanager
def _without_leases(ways: Sequence[FaultProxy]) -> Iterator[None]:
    """Carry nothing that is about Leases; whoever leads can still write scales."""

    def concerns(request: Request) -> bool:
        return "/leases" in request.target

    with ExitStack() as stack:
        for way in ways:
            stack.enter_context(way.playing(plays.hang, concerns))
            way.cut(concerns)
        yield


@contextmanager
def _deaf(ways: Sequence[FaultProxy]) -> Iterator[None]:
    """Carry requests, but no answer; in the end all connections are reset."""

    async def deaf(exchange: Exchange) -> None:
        exchange.link.silence()
        await exchange.forward(exchange.request)

    with ExitStack() as stack:
        for way in ways:
            stack.callback(way.cut)
            stack.enter_context(way.playing(deaf))
            way.silence()
        yield


@contextmanager
def _half_open(ways: Sequence[FaultProxy]) -> Iterator[None]:
    """Let the connections that there are be dead; new ones work."""
    for way in ways:
        way.silence()
    yield


@contextmanager
def _slow(seconds: float, ways: Sequence[FaultProxy]) -> Iterator[None]:
    """Let each request take up to so long to reach the server."""

    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(random.uniform(0, seconds))  # noqa: S311 - no secret
        await exchange.forward(exchange.request)

    with ExitStack() as stack:
        for way in ways:
            stack.enter_context(way.playing(slow))
        yield


@contextmanager
def _done(act: Callable[[], None]) -> Iterator[None]:
    act()
    yield
