"""What happens to the daemon itself, told wherever somebody may look.

To the log, the health pages, the metrics and the service manager: each has one method here.
"""

import math

from structlog.typing import FilteringBoundLogger

from autoscaler import __version__
from autoscaler.adapters.store import Resumption
from autoscaler.config import Address, Config, ConfigError
from autoscaler.daemon.exposition import Instruments
from autoscaler.daemon.health import Component, Health
from autoscaler.daemon.leadership import Role
from autoscaler.daemon.notify import Notifier
from autoscaler.daemon.schedule import HangingSyncError
from autoscaler.rendering import wording

_LEAST_MOVE_SECONDS = 1.0
_MOST_PROBLEMS = 20
"""Of a configuration that is refused; `autoscaler validate` tells more of them."""

_SERVERS = {
    Component.PROMETHEUS: ("Prometheus", "targets whose metrics it has stay as they are"),
    Component.KUBERNETES: ("the API server", "what cannot be read or written there stays as it is"),
}


class Announcements:
    """Tells each thing once, on whatever thread it happens."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        health: Health,
        instruments: Instruments,
        notifier: Notifier,
    ) -> None:
        self._log = log
        self._health = health
        self._instruments = instruments
        self._notifier = notifier
        self._standing = ""
        self._refusal = ""
        self._targets = 0
        health.follow_servers(self._server)

    # -- life --------------------------------------------------------------------------------

    def listening(self, address: Address) -> None:
        """Tell where metrics and health are served."""
        at = str(address)
        self._log.info("listening", message=f"metrics and health are at http://{at}", address=at)

    def serving(self, config: Config) -> None:
        """Tell that the syncs have begun."""
        targets = wording.counted(len(config.targets), "target")
        self._log.info(
            "started",
            message=f"autoscaler {__version__} syncs {targets}, by default every "
            f"{config.sync_period:g} s",
            version=__version__,
            targets=len(config.targets),
            sync_period_seconds=config.sync_period,
        )
        self.configured(config)

    def configured(self, config: Config) -> None:
        """Tell that a configuration is in force."""
        self._targets = len(config.targets)
        self._refusal = ""
        message = f"{config.path} is in force, {wording.counted(self._targets, 'target')}"
        self._health.tell(Component.CONFIGURATION, ok=True, message=message)
        self._notifier.ready(self._status())

    def stopping(self) -> None:
        """Tell that the daemon is about to end."""
        self._notifier.stopping()

    def stopped(self, signal: str | None) -> None:
        """Tell that the daemon has ended."""
        self._log.info(
            "stopped", message=f"stopped by {signal}" if signal else "stopped", signal=signal
        )

    # -- what a part of the daemon says -------------------------------------------------------

    def insecure(self, sentence: str) -> None:
        """Warn of what leaves a secret or a connection open to others."""
        self._log.warning("insecure", message=sentence)

    def watched(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - the shape of each part's call
        """Tell what can be watched again, or cannot."""
        self._tell("watched" if ok else "not_watched", ok, sentence)
        self._instruments.watch_noted()

    def events(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - as above
        """Tell whether Events can be written."""
        self._tell("events", ok, sentence)

    def _server(self, component: Component, problem: str, seconds: float) -> None:
        """Tell that a server no longer answers, or does again."""
        name, meanwhile = _SERVERS[component]
        if not problem:
            message = f"{name} answers again, after {wording.duration(seconds)}"
            self._log.info("server_answers", server=component.value, message=message)
            return
        lasts = f"has not answered for {wording.duration(seconds)}"
        what = lasts if seconds >= 1.0 else "does not answer"
        message = f"{name} {what} (it {problem}); {meanwhile}; the lines of the targets say why"
        self._log.warning("server_away", server=component.value, message=message)

    def state(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - as above
        """Tell whether state can be kept."""
        self._tell("state", ok, sentence)
        self._health.tell(Component.STATE, ok=ok, message=sentence)

    def resumed(self, resumption: Resumption) -> None:
        """Tell what the daemon remembers of an earlier run, if there was one."""
        if not resumption.histories:
            return
        self._log.info(
            "resumed",
            message=_resumed(resumption),
            targets=len(resumption.histories),
            absent_seconds=round(resumption.absent, 3)
            if math.isfinite(resumption.absent)
            else None,
            moved_seconds=round(resumption.moved, 3),
        )
        if abs(resumption.moved) >= _LEAST_MOVE_SECONDS:
            self._log.warning(
                "clock_set",
                message="the clock cannot be trusted to tell how long the daemon was away; "
                f"windows and periods last as if it had not been set by {resumption.moved:.0f} s",
                seconds=round(resumption.moved, 3),
            )

    def leadership(self, standing: Role, sentence: str) -> None:
        """Tell where this process stands in the election."""
        lost = standing in {Role.LOST, Role.UNREADABLE}
        self._tell("leadership", not lost, sentence, standing=standing.value)
        self._health.tell(Component.LEADERSHIP, ok=not lost, message=sentence)
        self._instruments.leads(leading=standing is Role.LEADER)
        self._standing = standing.value
        self._notifier.status(self._status())

    def fault(self, error: BaseException) -> None:
        """Tell of a defect, with its traceback."""
        self._log.error("fault", exc_info=error)
        self._instruments.fault()

    # -- reload --------------------------------------------------------------------------------

    def reloading(self) -> None:
        """Tell that the configuration is read again."""
        self._notifier.reloading()

    def reload_refused(self, error: ConfigError, config: Config) -> None:
        """Tell that a new configuration is bad, and that the old ``config`` stays in force."""
        first, more = error.problems[0], len(error.problems) - 1
        others = f" (and {more} more)" if more else ""
        left = len(error.problems) - _MOST_PROBLEMS
        self._log.error(
            "reload_failed",
            message="the new configuration is refused; the one before it stays in force",
            problems=[str(problem) for problem in error.problems[:_MOST_PROBLEMS]],
            **({"more_problems": left} if left > 0 else {}),
        )
        self.not_reloaded(f"refused: {first}{others}; the last good one is in force", config)

    def reload_impossible(self, error: Exception, config: Config) -> None:
        """Tell that a valid configuration cannot be put in force; once, however often it is tried.

        Whatever is no sync that hangs is a defect.
        """
        sentence = f"not in force yet: {error}; it is tried again, and the last good one stays"
        if sentence not in self._refusal:
            self._log.error("reload_failed", message=f"the new configuration is {sentence}")
            if not isinstance(error, HangingSyncError):
                self.fault(error)
        self.not_reloaded(sentence, config)

    def not_reloaded(self, sentence: str, config: Config) -> None:
        """Tell health, metrics and service manager of a reload that failed."""
        self._instruments.reloaded(ok=False)
        self._health.tell(Component.RELOAD, ok=False, message=sentence)
        self._targets = len(config.targets)
        self._refusal = f"; {sentence}"
        self._notifier.ready(self._status())

    def reloaded(self, config: Config) -> None:
        """Tell that a new configuration is in force."""
        self._instruments.reloaded(ok=True)
        self._health.tell(Component.RELOAD, ok=True, message="the last reload succeeded")
        self.configured(config)

    def _tell(self, event: str, ok: bool, sentence: str, **fields: str) -> None:  # noqa: FBT001 - as above
        """Log that something is well, or a warning that it is not."""
        (self._log.info if ok else self._log.warning)(event, message=sentence, **fields)

    def _status(self) -> str:
        standing = f", {self._standing}" if self._standing else ""
        return f"{wording.counted(self._targets, 'target')}{standing}{self._refusal}"


def _resumed(resumption: Resumption) -> str:
    targets = wording.counted(len(resumption.histories), "target")
    if not math.isfinite(resumption.absent):
        return f"goes on with what an earlier run remembered of {targets}"
    ago = wording.duration(resumption.absent)
    return f"goes on with what an earlier run remembered of {targets}, {ago} ago"
