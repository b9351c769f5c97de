"""What is promised of daemons that share clusters, and the check of what the API servers accepted.

Nothing counts here that a daemon says of itself.
"""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise

HAND = "hand"
"""The user who edits and deletes Leases; no daemon."""
SLACK_SECONDS = 5.0
"""How much longer than a Lease a cluster may be without a leader."""
MOST_CHANGES = 2
"""How often a cluster may change its leader while the daemons settle."""

Pair = tuple[str, str]
"""A daemon and a cluster."""
Span = tuple[float, float]
Asked = tuple[float, str]
"""A request for Leases: its Unix time, and its verb with what it was for."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A write that an API server accepted, at a Unix time; in each cluster in their order.

    ``holder`` is whom the Lease of the election names from then on, "" for nobody; None for the
    write of a scale.
    """

    at: float
    user: str
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class Disruption:
    """Pairs of a daemon and a cluster that cannot work, from one Unix time to another.

    With ``leads`` whoever leads may go on, as over slow connections; nobody need take over.
    """

    what: str
    pairs: frozenset[Pair]
    begin: float
    end: float
    leads: bool = False


@dataclass(frozen=True)
class Course:
    """What happened from begin to end, and what was accepted in each cluster; Unix times."""

    begin: float
    end: float
    lease_seconds: float
    accepted: Mapping[str, Sequence[Accepted]]
    starts: Mapping[str, Sequence[float]]
    """When the processes of each daemon were started: a Lease is held by a process."""
    disruptions: Sequence[Disruption] = ()
    deletions: Sequence[tuple[float, str]] = ()
    """When the Lease of which cluster was deleted by hand."""
    quiet: Sequence[Span] = ()
    """Times without any fault."""
    settle_seconds: float = 60.0
    """How long after the last fault the clusters are shared fairly."""
    asked: Mapping[str, Sequence[Asked]] = field(default_factory=dict)
    """What was asked of Leases in the clusters that keep it."""

    def process_at(self, user: str, at: float) -> str:
        """Return which process a daemon was at a time."""
        return f"{user}#{bisect_right(self.starts.get(user, ()), at)}"

    def process_of(self, identity: str) -> str:
        """Return the process of an identity; "" for who is no daemon of ours."""
        return self._processes.get(identity, "")

    @cached_property
    def _processes(self) -> dict[str, str]:
        """By identity: it is that of the process which was the first to write it itself."""
        found: dict[str, str] = {}
        for one in sorted(chain(*self.accepted.values()), key=lambda one: one.at):
            if one.holder and one.holder.partition("_")[0] == one.user:
                found.setdefault(one.holder, self.process_at(one.user, one.at))
        return found

    @cached_property
    def terms(self) -> dict[str, list[tuple[float, str]]]:
        """Of each cluster, when which process (or "", nobody of ours) came to hold its Lease."""
        return {cluster: list(self._terms(cluster)) for cluster in self.accepted}

    def _terms(self, cluster: str) -> Iterator[tuple[float, str]]:
        holder = ""
        for at, process in self._holders(cluster):
            if process != holder:
                holder = process
                yield at, process

    def _holders(self, cluster: str) -> list[tuple[float, str]]:
        """Return each write of the Lease, with the process that it names."""
        written = [
            (one.at, self.process_of(one.holder))
            for one in self.accepted[cluster]
            if one.holder is not None
        ]
        return sorted([*written, *((at, "") for at, where in self.deletions if where == cluster)])

    # -- who led -----------------------------------------------------------------------------

    def led(self, cluster: str) -> list[Span]:
        """Return when a cluster was led: by a process that runs, reaches it, and renewed in time.

        Without what is shorter than nothing, in order.
        """
        found: list[Span] = []
        holders = [*self._holders(cluster), (self.end, "")]
        for (begin, process), (end, _) in pairwise(holders):
            if process:
                until = min(end, begin + self.lease_seconds, self._runs_until(process))
                found += without([(begin, until)], self._away(process, cluster))
        return joined(found)

    def unled(self, cluster: str) -> list[Span]:
        """Return when it was not, from the begin to the end of all."""
        return without([(self.begin, self.end)], self.led(cluster))

    def _runs_until(self, process: str) -> float:
        user, _, number = process.partition("#")
        later = self.starts[user][int(number) :]
        return later[0] if later else self.end

    def _away(self, process: str, cluster: str) -> list[Span]:
        pair = process.partition("#")[0], cluster
        return [
            (one.begin, one.end) for one in self.disruptions if pair in one.pairs and not one.leads
        ]

    def leaders(self, at: float) -> Counter[str]:
        """Return how many clusters each daemon leads at a time."""
        counts: Counter[str] = Counter(dict.fromkeys(self.starts, 0))
        for terms in self.terms.values():
            so_far = [process for begin, process in terms if begin <= at]
            daemon = so_far[-1].partition("#")[0] if so_far else ""
            # A process that has ended leads nothing, whatever the Lease says.
            if daemon and so_far[-1] == self.process_at(daemon, at):
                counts[daemon] += 1
        return counts


# -- the promises ---------------------------------------------------------------------------------


def two_writers(course: Course) -> Iterator[str]:
    """Yield each write of a scale by a process that did not hold the Lease of the cluster.

    What somebody else does to the Lease by hand makes no second writer: its holder may write until
    it finds out, and the others wait for a lease duration from then on.
    """
    for cluster, accepted in course.accepted.items():
        holder, since = "", course.begin
        for one in accepted:
            if one.holder is not None:
                if one.user != HAND:
                    holder, since = course.process_of(one.holder), one.at
                continue
            writer = course.process_at(one.user, one.at)
            if one.user != HAND and writer != holder:
                yield (
                    f"{clock_of(one.at)} {cluster}: {writer} wrote a scale {one.at - since:.2f} s "
                    f"after the Lease was written for {holder or 'nobody'}"
                )


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which a cluster had no leader though a daemon could lead it."""

    cluster: str
    begin: float
    seconds: float
    daemon: str

    def __str__(self) -> str:
        """Tell it in a line."""
        return (
            f"{clock_of(self.begin)} {self.cluster}: {self.seconds:.1f} s without a leader, "
            f"while {self.daemon} could lead it"
        )


def gaps(course: Course) -> list[Gap]:
    """Return the times without a leader, the longest first.

    Each is counted until there is a leader or the daemon cannot lead any more, and from the last of

    - when there was no leader,
    - when the daemon became able to lead,
    - when the Lease was deleted, or written by hand,
    - when it was written by or for a daemon that cannot lead: one whose requests are carried out
      and not answered takes the Lease and does not know it.
    """
    found = []
    for cluster, accepted in course.accepted.items():
        written = [at for at, where in course.deletions if where == cluster]
        written += [one.at for one in accepted if one.user == HAND]
        written += [at for at, _ in course.terms[cluster]]
        for daemon, starts in course.starts.items():
            pair = daemon, cluster
            away = [(one.begin, one.end) for one in course.disruptions if pair in one.pairs]
            unled = without(course.unled(cluster), [(course.begin, starts[0]), *away])
            for begin, end in split(unled, written):
                found.append(Gap(cluster, begin, end - begin, daemon))
    return sorted(found, key=lambda gap: -gap.seconds)


def late(course: Course) -> Iterator[str]:
    """Yield the gaps that are longer than promised."""
    limit = course.lease_seconds + SLACK_SECONDS
    return (str(gap) for gap in gaps(course) if gap.seconds > limit)


@dataclass(frozen=True, slots=True)
class Settling:
    """How a quiet time went, in seconds since its begin; infinity for never."""

    begin: float
    seconds: float
    fair_after: float
    """From when on each daemon led within one of its fair share."""
    even_after: float
    """From when on none led two more than another."""
    changes: Mapping[str, int]
    """Of each cluster, how often its leader changed until it was to be settled."""
    later: Mapping[str, int]
    """The same after that."""
    shares: Mapping[str, int]
    """How many clusters each daemon led in the end."""


def settlings(course: Course) -> list[Settling]:
    """Return how each quiet time went."""
    return [_settling(course, *span) for span in course.quiet]


def _settling(course: Course, begin: float, end: float) -> Settling:
    fair = len(course.accepted) / len(course.starts)
    settled = begin + course.settle_seconds
    changes, later = Counter[str](), Counter[str]()
    instants = {begin}
    for cluster, terms in course.terms.items():
        for at, process in terms:
            if begin < at <= end:
                instants.add(at)
                # A term that ends and another that begins are one change.
                (changes if at <= settled else later)[cluster] += process != ""
    fair_after = even_after = 0.0
    for at in sorted(instants):
        counts = course.leaders(at).values()
        following = min((one for one in instants if one > at), default=end)
        if sum(counts) < len(course.accepted) or any(abs(one - fair) > 1 for one in counts):
            fair_after = following - begin if following < end else float("inf")
        if sum(counts) < len(course.accepted) or max(counts) - min(counts) > 1:
            even_after = following - begin if following < end else float("inf")
    shares = course.leaders(end)
    return Settling(begin, end - begin, fair_after, even_after, changes, later, shares)


def unfair(course: Course) -> Iterator[str]:
    """Yield each quiet time after which clusters are not shared fairly, or change their leader."""
    limit = course.settle_seconds
    for one in settlings(course):
        when = clock_of(one.begin)
        if one.fair_after > limit and one.seconds > limit:
            yield f"{when} not within one of the fair share after {limit:g} s: {told(one)}"
        for cluster, number in one.changes.items():
            if number > MOST_CHANGES:
                yield f"{when} {cluster} changed its leader {number} times without a fault"
        for cluster, number in one.later.items():
            yield f"{when} {cluster} changed its leader {number} times after all was settled"


def broken(course: Course, *, shared: bool = True) -> list[str]:
    """Return all that broke a promise, a line each; who does not share promises no fairness."""
    return [*two_writers(course), *late(course), *(unfair(course) if shared else ())]


def told(settling: Settling) -> str:
    """Return the shares as a text."""
    return ", ".join(f"{daemon} {count}" for daemon, count in sorted(settling.shares.items()))


def requests_for_leases(course: Course) -> list[float]:
    """Return how many there were a second in each cluster, while all was settled, in order."""
    spans = [(begin + course.settle_seconds, end) for begin, end in course.quiet]
    seconds = sum(max(0.0, end - begin) for begin, end in spans)
    if not seconds:
        return []
    return sorted(
        sum(begin <= at < end for at, _ in asked for begin, end in spans) / seconds
        for asked in course.asked.values()
    )


def handovers(course: Course) -> list[float]:
    """Return how long no scale was written around each time that a leader named another one."""
    found = []
    for accepted in course.accepted.values():
        scales = [one.at for one in accepted if one.holder is None]
        for one in accepted:
            others = one.holder and one.user not in {HAND, one.holder.partition("_")[0]}
            following = bisect_right(scales, one.at)
            if others and 0 < following < len(scales):
                found.append(scales[following] - scales[following - 1])
    return sorted(found)


def pauses(course: Course) -> list[float]:
    """Return the longest time without a write in each cluster while all was settled, in order."""
    found = []
    for accepted in course.accepted.values():
        scales = [one.at for one in accepted if one.holder is None]
        for begin, end in course.quiet:
            settled = begin + course.settle_seconds
            inside = [settled, *(at for at in scales if settled < at < end), end]
            if settled < end:
                found.append(max(after - before for before, after in pairwise(inside)))
    return sorted(found)


# -- times -----------------------------------------------------------------------------------------


def without(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """Return the parts of spans that are in no other."""
    left = list(spans)
    for begin, end in others:
        left = [
            part
            for one in left
            for part in ((one[0], min(one[1], begin)), (max(one[0], end), one[1]))
            if part[0] < part[1]
        ]
    return sorted(left)


def joined(spans: Sequence[Span]) -> list[Span]:
    """Return the spans with those that meet as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def split(spans: Sequence[Span], instants: Sequence[float]) -> list[Span]:
    """Return the spans, divided where an instant is within."""
    found: list[Span] = []
    for begin, end in spans:
        cuts = [begin, *sorted(at for at in instants if begin < at < end), end]
        found += pairwise(cuts)
    return found


def clock_of(at: float) -> str:
    """Return the time of the day, UTC."""
    return time.strftime("%T", time.gmtime(at))
