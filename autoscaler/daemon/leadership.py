"""Which of several daemons writes: the one that holds a Lease, as long as it can renew it.

A writer cannot rely on `kubernetes.leaderelection`: it measures by the wall clock, its requests
have no time limit, it ends when the Lease is lost, never releases it, and above all it cannot say
until when a write may be sent.
"""

import random
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import Enum

from autoscaler import clock
from autoscaler.adapters.cluster import Api, Failure, Lease, Leases
from autoscaler.config.settings import LeaderElection
from autoscaler.core.election import ClusterLeader, Election, ElectionTimes, WriteGate
from autoscaler.core.text import printable
from autoscaler.transport import Observer

_JITTER = 0.2
"""How much later than a period followers try at most, as a part of it."""
_TRIES_WITHIN_DEADLINE = 3
_RELEASE_SECONDS = 2.0
_CONFLICT, _NOT_FOUND = 409, 404
_LONGEST_NAME = 253


class Role(Enum):
    """The role of this process in the election."""

    WAITING = "waiting"
    """Nothing is known yet."""
    LEADER = "leader"
    FOLLOWER = "follower"
    LOST = "lost"
    """It led, and could not renew the Lease in time."""
    UNREADABLE = "unreadable"
    """It does not lead, and the Lease cannot be read or written."""
    RESIGNED = "resigned"
    """It was stopped."""


class ElectionObserver(Observer):
    """Observes the election too."""

    def role_changed(self, role: Role, sentence: str) -> None:
        """Observe that this process has another role, or another reason for it."""


class Leadership(WriteGate):
    """Holds the Lease whenever it can, on a thread of its own, on which the ``observer`` is called.

    ``leases`` should have a connection of its own, so that no queue delays a renewal.
    """

    def __init__(
        self,
        leases: Leases,
        identity: str,
        times: ElectionTimes,
        *,
        observer: ElectionObserver | None = None,
        steady: Callable[[], float] = clock.steady,
        wall: Callable[[], float] = clock.wall,
    ) -> None:
        self.identity = identity
        """The name of this process in the Lease; no other may have it."""
        self.reported = (Role.WAITING, f"{leases} was not read yet")
        """The role that was reported last, and the sentence for it."""
        self._leases = leases
        self._times = times
        self._request_seconds = times.renew_deadline / _TRIES_WITHIN_DEADLINE
        self._observer = observer or ElectionObserver()
        self._steady = steady
        self._wall = wall
        self._election = Election(identity, times)
        self._lease: Lease | None = None
        self._sure = False
        """Whether `_lease` is what was read or written last, and no request has failed since."""
        self._failure: Failure | None = None
        self._subject = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)

    def leads_since(self) -> float | None:
        """Return since when, by `clock.steady`, this process leads; None where it does not."""
        return self._election.leads_since(self._steady())

    def leader(self, cluster: str) -> ClusterLeader:
        """Return who leads the cluster, which has this name."""
        holder = self._election.leader(self._steady())
        return ClusterLeader(cluster, holder == self.identity, holder)

    def may_write_until(self) -> float:
        """Return the instant of `clock.monotonic` before which a write must have ended."""
        # In this order: a process that is paused between the two gets an instant too early.
        now = clock.monotonic()
        return now + (self._election.leads_until - self._steady())

    def start(self) -> None:
        """Begin to try."""
        self._thread.start()

    def close(self) -> None:
        """Stop leading, and release the Lease, within seconds; all writes must have ended."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._request_seconds * 2 + _RELEASE_SECONDS)

    # -- on the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = clock.monotonic()
            self._guard(self.try_acquire_or_renew)
            self._stop.wait(max(0.0, self._next_try(begun) - clock.monotonic()))
        self._guard(self.release)

    def _guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - without this thread this process would never lead
            self._sure = False
            self._observer.fault(error)

    def try_acquire_or_renew(self) -> None:
        """Try once to renew the Lease, or to take it."""
        # A Lease that has run out is reported before a request that may take long.
        self._report()
        self._failure = self._try()
        self._report()

    def _try(self) -> Failure | None:
        refusal: Failure | None = None
        for _ in range(2):
            if not self._sure and (unseen := self._read()):
                return unseen
            asked = self._steady()
            bid = self._election.next_record(asked, self._wall())
            self._sure = False
            if bid is None:
                return None
            answer = self._leases.write(bid, self._lease, self._deadline())
            if isinstance(answer, Lease):
                self._lease, self._sure = answer, True
                self._election.record_written(answer.record, asked)
                return None
            refusal = answer
            if refusal.status not in {_CONFLICT, _NOT_FOUND}:
                break
            # Another process wrote it, or it was deleted: read it again.
        return refusal

    def _read(self) -> Failure | None:
        seen = self._leases.read(self._deadline())
        if isinstance(seen, Failure):
            return seen
        self._lease, self._sure = seen, True
        self._election.observe(None if seen is None else seen.record, self._steady())
        return None

    def release(self) -> None:
        """Release the Lease, if it is ours, so that the others need not wait until it runs out."""
        if not self._sure and self._election.holder == self.identity:
            self._read()
        record = self._election.release(self._wall())
        sentence = f"this process stands for {self._leases} no more"
        if record is not None and self._sure:
            answer = self._leases.write(record, self._lease, clock.monotonic() + _RELEASE_SECONDS)
            sentence = f"{self._leases} is free for the others"
            if isinstance(answer, Failure):
                sentence = f"{self._leases} could not be freed: {answer.message}"
        self._report_role(Role.RESIGNED, "", sentence)

    def _deadline(self) -> float:
        """Return until when a request may take: no longer than the Lease is held."""
        seconds = self._request_seconds
        left = self._election.leads_until - self._steady()
        return clock.monotonic() + (min(seconds, left) if left > 0 else seconds)

    def _next_try(self, begun: float) -> float:
        """Return the instant of the next try: after a period, or when a Lease runs out."""
        now, steady, period = clock.monotonic(), self._steady(), self._times.retry_period
        if self._election.leading(steady):
            return min(begun + period, now + (self._election.leads_until - steady))
        late = begun + period * (1 + random.uniform(0, _JITTER))  # noqa: S311 - no secret
        free_in = self._election.expires_at - steady
        return min(late, now + free_in) if free_in > 0 else late

    # -- reports -----------------------------------------------------------------------------

    def _report(self) -> None:
        leases, holder, failure = self._leases, self._election.holder, self._failure
        led = self.reported[0] in {Role.LEADER, Role.LOST}
        if self.leading():
            self._report_role(Role.LEADER, "", f"{leases} is held by this process, {self.identity}")
        elif failure is None and holder not in {"", self.identity}:
            lost = "; this process has lost it" if led else ""
            sentence = f"{leases} is held by {printable(holder, _LONGEST_NAME)}{lost}"
            self._report_role(Role.FOLLOWER, holder, sentence)
        elif failure is not None and led:
            sentence = (
                f"{leases} could not be renewed for {self._times.renew_deadline:g} s, and "
                f"nothing is written until it is: {failure.message}"
            )
            # Not each message: the seconds of a time-out differ from try to try.
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
    settings: LeaderElection, api: Api, observer: ElectionObserver
) -> Iterator[Leadership]:
    """Take part until the block ends, after all writes; the ``api`` is the election's alone."""
    with closing(api):
        leadership = Leadership(
            Leases(api, settings.namespace, settings.name),
            unique(settings.identity or socket.gethostname()),
            ElectionTimes(settings.lease_duration, settings.renew_deadline, settings.retry_period),
            observer=observer,
        )
        leadership.start()
        try:
            yield leadership
        finally:
            leadership.close()


def unique(name: str) -> str:
    """Return the name with a random part: two processes of one identity would both lead."""
    return f"{name}_{secrets.token_hex(4)}"
