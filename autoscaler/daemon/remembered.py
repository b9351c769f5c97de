"""What a plan goes on with: what a daemon beside it remembers, or what one left on the disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler import clock
from autoscaler.adapters.daemon import Limits, NobodyListensError, PageError, read_page
from autoscaler.adapters.store import Unreadable, look
from autoscaler.config import Config
from autoscaler.core.history import History
from autoscaler.core.rfc3339 import instant
from autoscaler.core.target import Target
from autoscaler.daemon.exposition.site import HISTORIES
from autoscaler.daemon.memory import known_of
from autoscaler.rendering import history_lines
from autoscaler.rendering.history_lines import FormatError

__all__ = ["PageError", "Remembered", "remembered"]

_NAMED = Limits(connect_seconds=5.0, silence_seconds=10.0, seconds=30.0)
_BESIDE = Limits()

_NO_WAY_DOWN = (
    "goes down before its stabilization window has passed and the ranges of its queries are whole"
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """Histories by our clock, and whose they are.

    ``source`` completes "goes on with what ...", and is empty where there are none; ``reasons`` say
    why what ought to come first is not what is gone on with.
    """

    histories: Mapping[str, History] = field(default_factory=dict)
    source: str = ""
    after: str = ""
    """What else is to be said of the source."""
    before: str = ""
    """What is to be said first: that no daemon listens."""
    reasons: tuple[str, ...] = ()

    def told(self, targets: Sequence[Target]) -> str:
        """Say in one line what a plan of these targets goes on with."""
        known, every = sum(one.key in self.histories for one in targets), len(targets)
        nothing = (f"{self.source} nothing of them",) if self.source and not known else ()
        reasons = "; ".join((*nothing, *self.reasons))
        why = f" ({reasons})" if reasons else ""
        if not known:
            begins = f"decides as a daemon that has just started: no target {_NO_WAY_DOWN}"
            return f"{begins}{why}"
        line = f"goes on with what {self.source} of {_share(known, every)}{self.after}{why}"
        if self.before:
            line = f"{self.before}; {line}"
        if known < every:
            line += f"; none of the others {_NO_WAY_DOWN}"
        return line


def _share(known: int, every: int) -> str:
    if known < every:
        return f"{known} of the {every} targets"
    return {1: "the target", 2: "both targets"}.get(every, f"all {every} targets")


def remembered(config: Config, url: str | None) -> Remembered:
    """Return what is remembered of the configuration's targets.

    ``url`` is the daemon's, which must then answer: raises PageError.  Without it the address is
    asked on which the configuration has a daemon listen, and then its state directory.
    """
    if url is not None:
        return _of_daemon(url, config.targets, _NAMED)
    nobody = ""
    odd: list[str] = []
    """What answers, and is no daemon of these targets."""
    if config.listen is not None and config.listen.port:
        try:
            found = _of_daemon(config.listen.url, config.targets, _BESIDE)
            if found.histories:
                return found
            odd.extend(found.reasons)
        except NobodyListensError as error:
            nobody = str(error)
        except PageError as error:
            odd.append(str(error))
    return _of_state(config, nobody, tuple(odd))


def _of_daemon(url: str, targets: Sequence[Target], limits: Limits) -> Remembered:
    keys = {target.key for target in targets}
    asked = clock.wall()
    try:
        shown = read_page(url, HISTORIES, lambda lines: history_lines.read(lines, keys), limits)
    except FormatError as error:
        raise PageError(f"the daemon at {url} is not understood: {error}") from None
    histories = shown.by_our_clock(asked, clock.wall())
    if not histories:
        return Remembered(reasons=(f"the daemon at {url} knows none of the targets",))
    after = "" if shown.leads else ", and does not lead now"
    return Remembered(histories, f"the daemon at {url} remembers", after)


def _of_state(config: Config, nobody: str, odd: tuple[str, ...]) -> Remembered:
    """Return what is on the disk; ``nobody`` says that no daemon listens, if so."""
    reasons = (nobody, *odd) if nobody else odd
    directory = config.state_directory
    if directory is None:
        return Remembered(reasons=(*reasons, "stateDirectory is null"))
    found = look(directory)
    if found is None:
        return Remembered(reasons=(*reasons, f"there is no state in {directory}"))
    if isinstance(found, Unreadable):
        return Remembered(reasons=(*reasons, found.message))
    histories = known_of(config.targets, found.resumption)
    if not histories:
        return Remembered(reasons=(*reasons, f"{found.path} knows none of the targets"))
    after = f" when it was last saved, at {instant(found.time)}"
    return Remembered(histories, f"{found.path} held", after, nobody, odd)
