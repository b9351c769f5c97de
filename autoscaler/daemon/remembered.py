"""The histories that a plan continues: from a running daemon, or its state directory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from autoscaler import clock
from autoscaler.config import Config
from autoscaler.core.breaker import Trip
from autoscaler.core.gaps import after_absence
from autoscaler.core.history import History
from autoscaler.core.target import Target, TargetName
from autoscaler.core.text import rfc3339
from autoscaler.daemon.client import Daemon, NoDaemonError, PageError, PageLimits, read_page
from autoscaler.persistence.state_directory import DATABASE
from autoscaler.persistence.store import Resumption, read_saved
from autoscaler.rendering import history_lines
from autoscaler.rendering.history_lines import FormatError
from autoscaler.web.site import HISTORIES

T = TypeVar("T")

__all__ = ["PageError", "RestoredHistories", "remembered", "tripped"]

_NAMED = PageLimits(connect_seconds=5.0, silence_seconds=10.0, seconds=30.0)
_BESIDE = PageLimits()

_NO_WAY_DOWN = "scales down before its stabilization window has passed and its ranges are complete"


@dataclass(frozen=True, slots=True)
class RestoredHistories:
    """Histories by our clock, and their source."""

    histories: Mapping[str, History] = field(default_factory=dict)
    source: str = ""
    """Completes "continues with the history that ..."; empty without a history."""
    after: str = ""
    """The text after the source."""
    before: str = ""
    """The text before: that no daemon listens."""
    reasons: tuple[str, ...] = ()
    """Why other sources were not used."""

    def describe(self, targets: Sequence[Target]) -> str:
        """Return a line about the histories that a plan of these targets continues."""
        known, every = sum(target.key in self.histories for target in targets), len(targets)
        nothing = (f"{self.source} nothing of them",) if self.source and not known else ()
        reasons = "; ".join((*nothing, *self.reasons))
        why = f" ({reasons})" if reasons else ""
        if not known:
            return f"decides like a daemon that has just started: no target {_NO_WAY_DOWN}{why}"
        share = _share(known, every)
        line = f"continues with the history that {self.source} of {share}{self.after}{why}"
        if self.before:
            line = f"{self.before}; {line}"
        if known < every:
            line += f"; none of the others {_NO_WAY_DOWN}"
        return line


def _share(known: int, every: int) -> str:
    if known < every:
        return f"{known} of the {every} targets"
    return {1: "the target", 2: "both targets"}.get(every, f"all {every} targets")


def tripped(config: Config, now: float) -> Mapping[str, Trip]:
    """Return by server the breakers that hold at a Unix time, as the daemon has stored them."""
    breaker, directory = config.breaker, config.state_directory
    if breaker is None or directory is None:
        return {}
    saved = read_saved(directory)
    if not isinstance(saved, Resumption):
        return {}
    readers = Counter(
        name
        for target in config.targets
        for name in {query.server for query in target.count_queries}
    )
    return {
        name: state.trip
        for name, state in saved.breakers.items()
        if state.trip is not None
        and now < state.trip.until
        and readers[name] >= breaker.min_targets
    }


def remembered(config: Config, asked: Daemon | None) -> RestoredHistories:
    """Return the histories of the configuration's targets.

    They come from the daemon ``asked``; raises PageError if it does not answer. Without one, they
    come from the configuration's daemon, or from its state directory.
    """
    if asked is not None:
        return _of_daemon(asked, config.targets, _NAMED)
    no_daemon = ""
    passed_over: list[str] = []
    """Why the answering daemon is not used."""
    if config.web_url is not None:
        try:
            found = _of_daemon(Daemon(config.web_url), config.targets, _BESIDE)
            if found.histories:
                return found
            passed_over.extend(found.reasons)
        except NoDaemonError as error:
            no_daemon = str(error)
        except PageError as error:
            passed_over.append(str(error))
    return _of_state(config, no_daemon, tuple(passed_over))


def known_of(targets: Sequence[Target], resumption: Resumption) -> Mapping[str, History]:
    """Return the histories of targets after a time without decisions."""
    return {
        target.key: after_absence(
            target,
            resumption.histories[target.key],
            resumption.absent + resumption.undecided.get(target.key, 0.0),
            resumption.now.wall,
        )
        for target in targets
        if target.key in resumption.histories
    }


def of_cluster(resumption: Resumption, cluster: str) -> Resumption:
    """Return the state with targets without a cluster moved to ``cluster``.

    A daemon that is given `clusters` continues so; known state of that cluster stays.
    """
    if not cluster:
        return resumption

    def named(known: Mapping[str, T]) -> dict[str, T]:
        names = {key: TargetName.parse(key) for key in known}
        # Those with a cluster come last, so that they win.
        order = sorted(known, key=lambda key: bool(names[key].cluster))
        return {
            names[key]._replace(cluster=names[key].cluster or cluster).key: known[key]
            for key in order
        }

    histories, undecided = named(resumption.histories), named(resumption.undecided)
    return replace(resumption, histories=histories, undecided=undecided)


def _of_daemon(daemon: Daemon, targets: Sequence[Target], limits: PageLimits) -> RestoredHistories:
    keys = {target.key for target in targets}
    asked = clock.wall()
    try:
        shown = read_page(daemon, HISTORIES, lambda lines: history_lines.read(lines, keys), limits)
    except FormatError as error:
        raise PageError(f"{daemon} is not understood: {error}") from None
    histories = shown.by_our_clock(asked, clock.wall())
    if not histories:
        return RestoredHistories(reasons=(f"{daemon} knows none of the targets",))
    after = "" if shown.leads else ", and does not lead now"
    return RestoredHistories(histories, f"{daemon} remembers", after)


def _of_state(config: Config, no_daemon: str, passed_over: tuple[str, ...]) -> RestoredHistories:
    reasons = (no_daemon, *passed_over) if no_daemon else passed_over
    directory = config.state_directory
    if directory is None:
        return RestoredHistories(reasons=(*reasons, "stateDirectory is null"))
    found, path = read_saved(directory), directory / DATABASE
    if found is None:
        reason = f"there is no state in {directory}"
    elif isinstance(found, str):
        reason = found
    elif histories := known_of(config.targets, of_cluster(found, config.first_cluster)):
        after = f" when it was last saved, at {rfc3339(found.saved_at)}"
        return RestoredHistories(histories, f"{path} held", after, no_daemon, passed_over)
    else:
        reason = f"{path} knows none of the targets"
    return RestoredHistories(reasons=(*reasons, reason))
