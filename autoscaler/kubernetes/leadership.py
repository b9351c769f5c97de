"""Leader election: the daemon that holds the Lease writes, as long as it can renew it.

The client's `leaderelection` is not suitable for writers: it measures by the wall clock, its
requests have no time limit, it ends when the Lease is lost, never releases it, and above all it
cannot tell how long a write may be sent.
"""

import random
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import Enum

from autoscaler import clock
from autoscaler.config.fields import HOSTNAME
from autoscaler.config.settings import LeaderElection
from autoscaler.config.shards import Shard
from autoscaler.core.text import printable
from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.election import (
    NEVER,
    ClusterLeader,
    Election,
    ElectionTimes,
    LeaseRecord,
    WriteGate,
)
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.leases import Lease, LeaseCache, Leases, OtherShards
from autoscaler.kubernetes.reflector import OperatorNotes, Reflector, WatchState
from autoscaler.kubernetes.scale_cache import is_newer
from autoscaler.kubernetes.watch_requests import WatchTimings
from autoscaler.transport import Observer

_JITTER, _SOON = 0.2, 0.1
"""As parts of a period: a follower's longest random delay, and the shortest pause of two tries."""
_TRIES_WITHIN_DEADLINE = 3
_RELEASE_SECONDS = 2.0
_CONFLICT, _NOT_FOUND = 409, 404
_LONGEST_NAME = 253
_URL = "autoscaler/url"
"""The annotation with the address of the holder's pages."""


class Role(Enum):
    """The role of this process in the election."""

    WAITING = "waiting"
    """Unknown yet."""
    LEADER = "leader"
    FOLLOWER = "follower"
    LOST = "lost"
    """It was the leader, and could not renew the Lease in time."""
    UNREADABLE = "unreadable"
    """It is not the leader, and the Lease cannot be read or written."""
    RESIGNED = "resigned"
    """It was stopped."""


class ElectionObserver(Observer):
    """An observer that also observes the election."""

    def role_changed(self, role: Role, sentence: str) -> None:
        """Observe that this process has another role, or another reason for it."""


class Leadership(WriteGate):
    """Holds the Lease whenever it can, on its own thread, on which the ``observer`` is called.

    ``leases`` should have a connection of its own, so that no queue delays a renewal. A follower
    need not read the Lease while a watch shows it (`hear`). ``url`` is the address of this process'
    pages, empty if others cannot reach them.
    """

    others: OtherShards | None = None
    """The Leases whose holders may write the same targets, if there are `shards`."""
    _unwritten = ""
    """What is not written for that reason although this process leads, as the end of a sentence."""

    def __init__(
        self,
        leases: Leases,
        identity: str,
        times: ElectionTimes,
        *,
        observer: ElectionObserver | None = None,
        url: str = "",
        steady: Callable[[], float] = clock.steady,
        wall: Callable[[], float] = clock.wall,
    ) -> None:
        self.identity = identity
        """The identity of this process in the Lease, which must be unique."""
        self.reported = (Role.WAITING, f"{leases} was not read yet")
        """The last reported role, and its sentence."""
        self._leases = leases
        self._times = times
        self._request_seconds = times.renew_deadline / _TRIES_WITHIN_DEADLINE
        self._observer = observer or ElectionObserver()
        self._url = url
        self.watching: Callable[[], bool] = lambda: False
        """Whether a watch shows every change of the Lease now."""
        self._steady = steady
        self._wall = wall
        self._election = Election(identity, times)
        self._lease: Lease | None = None
        self._sure = False
        """Whether `_lease` is the last one read or written, and no request has failed since."""
        self._missed = False
        """Whether the watch did not show the effect of a request; reset when it shows a change."""
        self._heard: deque[tuple[Lease | None, float]] = deque()
        """Changes from the watch that are not processed yet, with their instants."""
        self._try_at = clock.monotonic()
        self._tried_at = float("-inf")
        self._failure: Failure | None = None
        self._subject = ""
        self._stop = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)

    def leads_since(self, namespace: str | None = None, /) -> float | None:
        """Return the time (`clock.steady`) from which it may write in a namespace; else None."""
        since = self._election.leads_since(self._steady())
        if since is None or namespace is None or self.others is None:
            return since
        return self.others.since(namespace, since)

    def leader(self, cluster: str) -> ClusterLeader:
        """Return the leader of the cluster with this name."""
        lease, holder = self._lease, self._election.leader(self._steady())
        url = None
        if lease is not None and lease.record.holder == holder:
            url = lease.annotations.get(_URL)
        process = holder.rpartition("/")[0] or holder if cluster else holder
        return ClusterLeader(cluster, holder == self.identity, process, url)

    def may_write_until(self, namespace: str | None = None, /) -> float:
        """Return the instant of `clock.monotonic` before which a write in a namespace must end."""
        if self.leads_since(namespace) is None:
            return NEVER
        # In this order: a process that is suspended between the two gets too early an instant.
        now = clock.monotonic()
        return now + (self._election.leads_until - self._steady())

    def start(self) -> None:
        """Start taking part in the election."""
        self._thread.start()

    def hear(self, lease: Lease | None) -> None:
        """Receive the current Lease from a watch; None if it was deleted. Thread-safe."""
        self._heard.append((lease, self._steady()))
        self._woken.set()

    def stop(self) -> None:
        """Tell the thread to release the Lease and end; all writes must have ended."""
        self._stop.set()
        self._woken.set()

    def close(self) -> None:
        """Stop leading, and release the Lease, within seconds; all writes must have ended."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(self._request_seconds * 2 + _RELEASE_SECONDS)

    # -- on the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            self._woken.clear()
            self._guard(self.take_turn)
            left = min(self._times.retry_period, self._try_at - clock.monotonic())
            self._woken.wait(max(0.0, left))
        self._guard(self.release)

    def _guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - without this thread this process would never lead
            self._sure = False
            self._try_at = clock.monotonic() + self._times.retry_period
            self._observer.fault(error)

    def take_turn(self) -> None:
        """Process the changes from the watch, and make a try if one is due."""
        begun = clock.monotonic()
        self.process_heard()
        if self._stands_by_informed():
            # A change from the watch may have moved it: a renewal, a release.
            self._try_at = self._next_bid(begun)
        elif not self.leading():
            # The watch has failed since: read the Lease again.
            period = self._times.retry_period * (1 + _JITTER)
            self._try_at = min(self._try_at, self._tried_at + period)
        if begun >= self._try_at:
            self.try_acquire_or_renew()
            self._try_at = self._next_try(begun)
        else:
            self._report()

    def process_heard(self) -> None:
        """Process all changes from the watch so far."""
        while self._heard:
            self._process(*self._heard.popleft())

    def _process(self, lease: Lease | None, at: float) -> None:
        """Process a change from the watch; leaders learn of others from answers to renewals."""
        if lease is None:
            self._sure = False
            self._try_at = clock.monotonic()
            return
        known = self._lease
        if self.leading() or (known is not None and _is_older(lease, known)):
            return
        self._lease, self._sure, self._missed = lease, True, False
        self._failure = None
        self._election.observe(lease.record, at)

    def _stands_by_informed(self) -> bool:
        """Return whether this process does not lead, and the watch shows the leader."""
        informed = self._sure and not self._missed and self._failure is None and self.watching()
        return informed and not self.leading()

    def try_acquire_or_renew(self) -> None:
        """Try once to renew the Lease, or to take it."""
        # An expired Lease is reported before a request that may be slow.
        self._report()
        self._tried_at = clock.monotonic()
        if self._election.holder not in {"", self.identity}:
            # The Lease has expired, according to the watch. A process without answers must not take
            # it: the others would wait for this process.
            self._sure = False
        self._failure = self._try()
        since = self.leads_since()
        if self.others is not None and since is not None:
            self._unwritten = self.others.look(since, self._deadline(), self._steady)
        self._report()

    def _try(self) -> Failure | None:
        refusal: Failure | None = None
        for _ in range(2):
            if not self._sure and (unseen := self._read()):
                return unseen
            asked = self._steady()
            bid = self._election.next_record(asked, self._wall())
            if bid is None:
                self._sure = self._sure and self.watching()
                return None
            answer = self._write(bid)
            if isinstance(answer, Lease):
                self._election.record_written(answer.record, asked)
                return None
            refusal = answer
            if refusal.status not in {_CONFLICT, _NOT_FOUND}:
                break
            # Another process wrote it, or it was deleted: read it again.
        return refusal

    def _write(self, record: LeaseRecord) -> Lease | Failure:
        self._sure = False
        answer = self._leases.write(record, self._lease, self._deadline(), {_URL: self._url})
        if isinstance(answer, Lease):
            self._lease, self._sure = answer, True
        return answer

    def _read(self) -> Failure | None:
        seen = self._leases.read(self._deadline())
        if isinstance(seen, Failure):
            return seen
        now, known = self._steady(), self._lease
        if seen is not None:
            self._missed = known is None or _is_older(known, seen)
        self._lease, self._sure = seen, True
        self._election.observe(None if seen is None else seen.record, now)
        return None

    def release(self) -> None:
        """Release the Lease, if it is ours, so that the others need not wait for its expiry."""
        if not self._sure and self._election.holder == self.identity:
            self._read()
        record = self._election.release(self._wall())
        sentence = f"this process no longer competes for {self._leases}"
        until = clock.monotonic() + _RELEASE_SECONDS
        if record is not None and self._sure:
            answer = self._leases.write(record, self._lease, until, {_URL: ""})
            sentence = f"{self._leases} is free for the others"
            if isinstance(answer, Failure):
                sentence = f"{self._leases} could not be freed: {answer.message}"
        self._report_role(Role.RESIGNED, "", sentence)

    def _deadline(self) -> float:
        """Return the deadline of a request: no later than the end of the Lease."""
        seconds = self._request_seconds
        left = self._election.leads_until - self._steady()
        return clock.monotonic() + (min(seconds, left) if left > 0 else seconds)

    def _next_try(self, begun: float) -> float:
        """Return the instant of the next try: after a period, or when a Lease expires."""
        now, steady, period = clock.monotonic(), self._steady(), self._times.retry_period
        if self._election.leading(steady):
            return min(begun + period, now + (self._election.leads_until - steady))
        bid = self._next_bid(begun)
        if self._stands_by_informed():
            return bid
        late = begun + period * (1 + random.uniform(0, _JITTER))  # noqa: S311 - no secret
        return min(late, bid) if bid > now else late

    def _next_bid(self, begun: float) -> float:
        """Return the instant of the next bid.

        It is checked again at the latest when a Lease that is renewed now would expire.
        """
        now = clock.monotonic()
        at = now + (self._election.free_since - self._steady())
        if at <= now:
            return max(begun, self._tried_at + self._times.retry_period * _SOON)
        return min(at, now + self._times.lease_duration)

    # -- reports -----------------------------------------------------------------------------

    def _report(self) -> None:
        leases, holder, failure = self._leases, self._election.holder, self._failure
        led = self.reported[0] in {Role.LEADER, Role.LOST}
        if self.leading():
            sentence = f"{leases} is held by this process, {self.identity}{self._unwritten}"
            self._report_role(Role.LEADER, self._unwritten, sentence)
        elif failure is None and holder not in {"", self.identity}:
            lost = "; this process has lost it" if led else ""
            sentence = f"{leases} is held by {printable(holder, _LONGEST_NAME)}{lost}"
            self._report_role(Role.FOLLOWER, holder, sentence)
        elif failure is not None and led:
            sentence = (
                f"{leases} could not be renewed for {self._times.renew_deadline:g} s, and "
                f"nothing is written until it is: {failure.message}"
            )
            # Not for each message: the seconds of a timeout differ from try to try.
            self._report_role(Role.LOST, str(failure.status), sentence)
        elif failure is not None:
            sentence = f"{leases} cannot be used, and this process does not lead: {failure.message}"
            self._report_role(Role.UNREADABLE, failure.message, sentence)

    def _report_role(self, role: Role, subject: str, sentence: str) -> None:
        """Report a role, once for each holder or failure."""
        if (self.reported[0], self._subject) != (role, subject):
            self._subject = subject
            self.reported = (role, sentence)
            self._observer.role_changed(role, sentence)


@contextmanager
def leader_election(
    settings: LeaderElection, api: Api, observer: ElectionObserver, own: str, shard: Shard | None
) -> Iterator[Leadership]:
    """Take part in the election of a cluster or its shard until the block and all writes end.

    The ``api`` is used only by the election, and no other process has our ``own`` identity.
    """
    times = ElectionTimes(settings.lease_duration, settings.renew_deadline, settings.retry_period)
    url = (settings.external_url or "").replace(HOSTNAME, socket.gethostname())
    name = settings.name if shard is None else shard.lease(settings.name)
    leases = Leases(api, settings.namespace, name)
    with closing(api):
        leadership = Leadership(leases, own, times, observer=observer, url=url)
        if shard is not None:
            leadership.others = OtherShards(leases, settings.name, shard, times)
        cache = LeaseCache(settings.namespace, name, leadership.hear)
        notes = OperatorNotes(observer.watch_changed)
        watch = Reflector(api, cache, WatchTimings(), notes, lambda _: None)
        leadership.watching = lambda: watch.reason is None and watch.state is WatchState.SYNCED
        watch.start()
        leadership.start()
        try:
            yield leadership
        finally:
            watch.end()
            leadership.close()
            watch.join(_RELEASE_SECONDS)


def unique(name: str) -> str:
    """Return the name with a random part: two processes with the same identity would both lead."""
    return f"{name}_{secrets.token_hex(4)}"


def _is_older(lease: Lease, other: Lease) -> bool:
    """Return whether a Lease is an earlier state than another one, if their versions show it."""
    return is_newer(other.record.version, lease.record.version) is True
