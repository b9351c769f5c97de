"""Reports events of the daemon to the log, the health, the metrics and the service manager.

Each event has one method here.
"""

import logging
import math
import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from http.client import responses
from itertools import islice
from pathlib import Path

import structlog

from autoscaler import __version__, clock
from autoscaler.config import Address, Config, ConfigError
from autoscaler.config.exposure import warnings_of
from autoscaler.config.objects import ObjectRefusal
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.core.text import duration, rfc3339
from autoscaler.daemon.schedule import HangingSyncError
from autoscaler.daemon.service_manager import Notifier
from autoscaler.kubernetes.leadership import ElectionObserver, Role
from autoscaler.persistence.store import Resumption
from autoscaler.rendering import breaker, wording
from autoscaler.sync.ports import HOLDS, BreakerChange, BreakerNews, Reporter
from autoscaler.telemetry.health import NOT_ASKED, REQUIRED, Component, Health, part_of
from autoscaler.telemetry.metrics import NO_ANSWER, Instruments
from autoscaler.token_bucket import TokenBucket
from autoscaler.transport import Observer

_MOST_TARGETS_NAMED = 5
_MOST_PROBLEMS = 20
"""The most errors of a refused configuration that are logged; `autoscaler validate` shows more."""

_MOST_SIGN_INS_TOLD = 5
_SIGN_IN_TOLD_SECONDS = 60.0
"""The burst of lines about clients with wrong credentials, and the seconds per further line."""

_OF_PROMETHEUS = "no metric of this server scales a target"
_OF_KUBERNETES = "a target that cannot be read or written stays as it is"
_BY_HAND = frozenset({BreakerChange.RELEASED, BreakerChange.REMOVED})
"""What operators can do about a breaker."""


class Announcements(Observer, Reporter):
    """Reports each change once. Thread-safe."""

    def __init__(self, health: Health, instruments: Instruments, notifier: Notifier) -> None:
        self._log = structlog.get_logger()
        self._health = health
        self.instruments = instruments
        self._notifier = notifier
        self._role = ""
        self._refusal = ""
        self._shown = ""
        """The last status of the service manager."""
        self._targets = 0
        self._held: dict[str, str] = {}
        """By server with a tripped scale-down breaker: the sentence about it."""
        self._lock = threading.Lock()
        self._release_refused = ""
        self._lacked: frozenset[str] = frozenset()
        self._sign_ins_told = TokenBucket(_MOST_SIGN_INS_TOLD, _SIGN_IN_TOLD_SECONDS)
        self._sign_ins_untold = 0
        self._standing_by = False
        self._led: set[str] = set()
        """The clusters that this process leads."""
        self._served: AbstractSet[str] = frozenset()
        self._unreached: dict[str, str] = {}
        self._refused: dict[str, ObjectRefusal] = {}
        self.web_file_changed = partial(self.log_state, "web_file")
        """Reports that a file of `web` is unusable, or usable again."""
        self.state = partial(self.log_state, "state", part=Component.STATE)
        """Reports whether state can be saved."""
        self.record = partial(self.log_state, "record", part=Component.RECORD)
        """Reports whether decisions are recorded."""

    # -- life --------------------------------------------------------------------------------

    def listening(self, address: Address, scheme: str, what: str) -> None:
        """Report an address and what it serves, such as "metrics and health"."""
        at = str(address)
        self._log.info("listening", message=f"{what} are at {scheme}://{at}", address=at)

    def serving(self, config: Config) -> None:
        """Report that the syncs have begun."""
        count, period = len(config.targets), config.sync_period
        unwritten = sum(target.in_shadow for target in config.targets)
        shadow = f"; {unwritten} in shadow, where nothing is written" if unwritten else ""
        self._log.info(
            "started",
            message=f"autoscaler {__version__} syncs {wording.counted(count, 'target')}, "
            f"by default every {period:g} s{shadow}",
            version=__version__,
            targets=count,
            sync_period_seconds=period,
        )
        self._configured(config)

    def _configured(self, config: Config) -> None:
        self._targets = len(config.targets)
        self._refusal = ""
        message = f"{config.path} is in force, {wording.counted(self._targets, 'target')}"
        self._health.report(Component.CONFIGURATION, ok=True, message=message)
        self._notifier.ready(self._status())

    def stopped(self, signal: str | None) -> None:
        """Report that the daemon has ended."""
        message = f"stopped by {signal}" if signal else "stopped"
        self._log.info("stopped", message=message, signal=signal)

    # -- parts of the daemon -----------------------------------------------------------------

    def security(self, config: Config) -> None:
        """Warn of each secret that a configuration leaves open."""
        for sentence in warnings_of(config):
            self.insecure(sentence)

    def no_series(self, sentence: str, targets: Sequence[str]) -> None:
        """Report which series exist where a query of some targets found none."""
        first = list(targets[:_MOST_TARGETS_NAMED])
        self._log.warning("no_series", message=sentence, targets=len(targets), first=first)

    def rights_lacked(self, sentences: Sequence[str]) -> None:
        """Warn of each missing right, once until it was granted."""
        for sentence in sentences:
            if sentence not in self._lacked:
                self._log.warning("rights", message=sentence)
        self._lacked = frozenset(sentences)

    def sign_in_failed(self, way: str, client: str) -> None:
        """Count a client with wrong credentials; log the first ones, then one per minute."""
        self.instruments.sign_ins_failed.labels(way).inc()
        with self._lock:
            if not self._sign_ins_told.take(clock.monotonic()):
                self._sign_ins_untold += 1
                return
            untold, self._sign_ins_untold = self._sign_ins_untold, 0
        more = f"; {untold} more since the last such line" if untold else ""
        message = f"a client at {client} was refused: wrong credentials ({way}){more}"
        self._log.warning("sign_in_failed", message=message, client=client, way=way, untold=untold)

    def insecure(self, sentence: str) -> None:
        """Warn of settings that expose a secret or a connection."""
        self._log.warning("insecure", message=sentence)

    def alike(self, sentence: str) -> None:
        """Warn of two entries of `clusters` with the same API server."""
        self._log.warning("clusters_alike", message=sentence)

    def stands_by(self, directory: Path, holder: str) -> None:
        """Report who has the state directory, at each try; a standby is ready."""
        sentence = (
            f"{holder} uses the state directory {directory}: this process decides and writes "
            "nothing until that one has ended; to run both, give each a stateDirectory of its own, "
            "or configure leaderElection for both"
        )
        if not self._standing_by:
            self._standing_by = True
            self.state(ok=False, sentence=sentence)
            for component in REQUIRED:
                self._health.report(component, ok=True, message="waits for its turn: see state")
            self._notifier.ready(sentence)
        self._notifier.watchdog()

    def takes_turn(self) -> None:
        """Report that no other daemon uses the state directory any more."""
        if self._standing_by:
            self._standing_by = False
            self._log.info("state", message="the state directory is free: this process takes over")
            self._health.report_unheard()

    def resumed(self, resumption: Resumption) -> None:
        """Report the histories of an earlier run, if there are any."""
        if not resumption.histories:
            return
        count, known = len(resumption.histories), math.isfinite(resumption.absent)
        targets = wording.counted(count, "target")
        ago = f", {duration(resumption.absent)} ago" if known else ""
        self._log.info(
            "resumed",
            message=f"continues with the history of {targets} from an earlier run{ago}",
            targets=count,
            absent_seconds=round(resumption.absent, 3) if known else None,
            moved_seconds=round(resumption.moved, 3),
        )
        if abs(resumption.moved) >= 1.0:
            self._log.warning(
                "clock_set",
                message="the clock was set, or the machine rebooted, while the daemon was away; "
                f"windows and periods were moved by {resumption.moved:.0f} s: none ends early",
                seconds=round(resumption.moved, 3),
            )

    def leads(self, cluster: str, role: Role) -> None:
        """Note the role of this process in a cluster; it counts as leader if it leads any."""
        with self._lock:
            (self._led.add if role is Role.LEADER else self._led.discard)(cluster)
            leads = bool(self._led)
            self.instruments.leads(cluster, leading=role is Role.LEADER)
        self._role = Role.LEADER.value if leads else role.value
        self.follow_health()

    def breaker_changed(self, news: BreakerNews) -> None:
        """Report that a scale-down breaker has tripped or ended."""
        sentence, trip = breaker.describe(news), news.trip
        held = news.change in HOLDS
        self._log.log(
            logging.INFO if news.change in _BY_HAND else logging.ERROR,
            "scale_down_breaker",
            message=sentence,
            change=news.change.value,
            server=wording.server_label(news.server),
            targets=news.of,
            would_go_down=trip.down if held else news.down,
            query=trip.query or None,
            until=rfc3339(trip.until) if held else None,
        )
        with self._lock:
            if held:
                self._held[news.server] = sentence
            else:
                self._held.pop(news.server, None)
            told = "; ".join(self._held.values())
            message = told or "no scale-down breaker holds any target"
            self._health.report(Component.BREAKER, ok=not told, message=message)

    def release_refused(self, reason: str) -> None:
        """Report once per reason that a request of `resume --breaker` is unreadable."""
        if reason != self._release_refused:
            self._release_refused = reason
            message = f"a request of `autoscaler resume --breaker` cannot be read: {reason}"
            self._log.warning("release_refused", message=message)

    def fault(self, error: BaseException) -> None:
        """Log a defect with its traceback, and count it."""
        self._log.error("fault", exc_info=error)
        self.instruments.faults.inc()

    # -- requests ------------------------------------------------------------------------------

    def configure(self, targets: Sequence[Target], flags: Flags) -> None:  # noqa: ARG002
        """Set the Prometheus servers and clusters that the targets use from now on."""
        servers = {query.server for target in targets for query in target.all_queries}
        self._health.expect_servers(servers)
        self.instruments.expect_servers(servers)
        asked = {target.cluster for target in targets} | self._unreached.keys()
        for name in self._served - asked:
            component = part_of(Component.KUBERNETES, name)
            self._health.report(component, ok=True, message=NOT_ASKED)

    def prometheus_request(self, server: str, status: str, seconds: float) -> None:
        """Count a request; a query that the server rejects as invalid counts as answered."""
        self.instruments.asked_prometheus(server, status or NO_ANSWER, seconds)
        problem = None if status in {"200", "400", "422"} else _problem(status)
        self.request_ended(part_of(Component.PROMETHEUS, server), _prometheus(server), problem)

    def prometheus_sign_in_failed(self, server: str, sentence: str) -> None:
        """Count a request that could not be sent, and report why."""
        self.instruments.asked_prometheus(server, NO_ANSWER, 0.0)
        name = _prometheus(server)
        problem = f"cannot sign in to {name}: {sentence}"
        self.request_ended(part_of(Component.PROMETHEUS, server), name, problem, problem)

    def prometheus_retry(self, server: str, failure: str) -> None:  # noqa: ARG002 - the target's line has it
        """Count a retry of a query."""
        self.instruments.asked_prometheus_again(server)

    def of_cluster(self, name: str) -> ElectionObserver:
        """Return the observer of a cluster; the only cluster has no name."""
        return ClusterObserver(self, name)

    def serves(self, clusters: AbstractSet[str]) -> None:
        """Set the clusters that are served from now on."""
        self._served = clusters
        self._health.expect_clusters(clusters)
        self.instruments.expect_clusters(clusters)
        with self._lock:
            self._led &= clusters

    def unreached(self, clusters: Mapping[str, str]) -> None:
        """Report the clusters that cannot be connected to, and why, once for each reason."""
        for name, why in clusters.items():
            self._health.report(part_of(Component.KUBERNETES, name), ok=False, message=why)
            if self._unreached.get(name) != why:
                message = f"{why}; its targets stay as they are until that works"
                self._log.warning("cluster_unreached", cluster=name, message=message)
        for name in self._unreached.keys() - clusters.keys():
            message = f"cluster {name} can be connected to now"
            self._log.info("cluster_reached", cluster=name, message=message)
        self._unreached = dict(clusters)

    def request_ended(
        self, server: str, name: str, problem: str | None, sentence: str = ""
    ) -> None:
        """Report that a server has begun or ceased to answer; ``sentence`` may add details."""
        seconds = self._health.request_ended(server, problem)
        if seconds is None:
            return
        if problem is None:
            message = f"{name} answers again, after {duration(seconds)}"
            self._log.info("server_answers", server=str(server), message=message)
            return
        what = sentence or f"{name} {problem}"
        kubernetes = server.startswith(Component.KUBERNETES)
        meanwhile = _OF_KUBERNETES if kubernetes else _OF_PROMETHEUS
        if seconds >= 1.0:
            what += f" (the last answer that could be used was {duration(seconds)} ago)"
        message = f"{what}; {meanwhile}; see the log lines of the targets"
        self._log.warning("server_away", server=str(server), message=message)

    # -- reload --------------------------------------------------------------------------------

    def reloading(self) -> None:
        """Report that a reload of the configuration begins."""
        self._notifier.reloading()

    def reload_refused(self, error: ConfigError) -> None:
        """Report that a new configuration is invalid, and the previous one stays in force."""
        first, *more = error.problems
        others = f" (and {len(more)} more)" if more else ""
        left = len(error.problems) - _MOST_PROBLEMS
        self._log.error(
            "reload_failed",
            message="the new configuration is refused; the one before it stays in force",
            problems=[str(problem) for problem in error.problems[:_MOST_PROBLEMS]],
            **({"more_problems": left} if left > 0 else {}),
        )
        self._not_reloaded(f"refused: {first}{others}; the last good one is in force")

    def reload_impossible(self, error: Exception) -> None:
        """Report once that a valid configuration cannot be applied: a defect, or a hanging sync."""
        sentence = f"not in force yet: {error}; it is tried again, and the last good one stays"
        if sentence not in self._refusal:
            self._log.error("reload_failed", message=f"the new configuration is {sentence}")
            if not isinstance(error, HangingSyncError):
                self.fault(error)
        self._not_reloaded(sentence)

    def _not_reloaded(self, sentence: str) -> None:
        self.instruments.reloaded(ok=False)
        self._health.report(Component.RELOAD, ok=False, message=sentence)
        self._refusal = f"; {sentence}"
        self._notifier.ready(self._status())

    def reloaded(self, config: Config, refused: Mapping[str, ConfigError]) -> None:
        """Report that a reload succeeded, except for ``refused`` documents."""
        self.instruments.reloaded(ok=True)
        message = "the last reload succeeded"
        for document, error in islice(refused.items(), _MOST_PROBLEMS):
            message = f"{document} is refused: {error.problems[0]}; all else is in force"
            self._log.error("document_refused", document=document, message=message)
        if (left := len(refused) - _MOST_PROBLEMS) > 0:
            message = f"{left} more documents are refused"
            self._log.error("more_documents_refused", message=message, documents=left)
        self._health.report(Component.RELOAD, ok=not refused, message=message)
        self._configured(config)

    def objects(self, accepted: int, refused: Mapping[str, ObjectRefusal]) -> None:
        """Report which PromqlAutoscalers are refused, once for each reason, and count them."""
        self.instruments.count_objects(accepted, len(refused))
        new = [(name, why) for name, why in refused.items() if self._refused.get(name) != why]
        self._refused = dict(refused)
        for name, why in new[:_MOST_PROBLEMS]:
            message = f"PromqlAutoscaler {name} is not in force: {why.message}"
            self._log.warning("object_refused", message=message, reason=why.reason.value)
        if (left := len(new) - _MOST_PROBLEMS) > 0:
            message = f"{left} more PromqlAutoscalers are not in force; see their conditions"
            self._log.warning("more_objects_refused", message=message, objects=left)

    def log_state(
        self,
        event: str,
        ok: bool,  # noqa: FBT001 - a callback's shape
        sentence: str,
        part: str | None = None,
        **fields: str,
    ) -> None:
        """Report whether a component works, as a warning if not; ``part`` is its health part."""
        (self._log.info if ok else self._log.warning)(event, message=sentence, **fields)
        if part is not None:
            self._health.report(part, ok=ok, message=sentence)

    def follow_health(self) -> None:
        """Show the service manager why the daemon is not ready; call it each second."""
        status = self._status()
        if status != self._shown:
            self._shown = status
            self._notifier.status(status)

    def _status(self) -> str:
        role = f", {self._role}" if self._role else ""
        parts = () if self._health.ready else self._health.components()
        missing = next((part for part in parts if part.required and not part.ok), None)
        unready = "" if missing is None else f"; not ready: {missing.name}: {missing.message}"
        return f"{wording.counted(self._targets, 'target')}{role}{self._refusal}{unready}"


def _prometheus(server: str) -> str:
    return f"Prometheus {server}".rstrip()


def _problem(status: str) -> str:
    if not status:
        return "gives no answer, or none that can be read"
    phrase = responses.get(int(status), "")
    return f"answers only HTTP {status} {phrase}".strip()


def of_cluster(name: str, sentence: str) -> str:
    """Add the name of the cluster to a message, if it has one."""
    return f"cluster {name}: {sentence}" if name else sentence


class ClusterObserver(ElectionObserver):
    """Reports the events of a cluster, by its name."""

    def __init__(self, announcements: Announcements, name: str) -> None:
        self._announcements = announcements
        self._name = name

    def fault(self, error: BaseException) -> None:
        """Report a defect."""
        self._announcements.fault(error)

    def kubernetes_request(self, verb: str, status: str, seconds: float) -> None:
        """Count a request; most refusals are about one object or verb, so they count as answers."""
        name, announcements = self._name, self._announcements
        announcements.instruments.asked_kubernetes(name, verb, status or NO_ANSWER, seconds)
        answered = bool(status) and status < "500" and status not in {"401", "429"}
        problem = None if answered else _problem(status)
        server = f"the API server of {name}" if name else "the API server"
        announcements.request_ended(part_of(Component.KUBERNETES, name), server, problem)

    def kubernetes_retry(self, failure: str) -> None:  # noqa: ARG002 - the target's line has it
        """Count a retry of a call."""
        self._announcements.instruments.asked_kubernetes_again(self._name)

    def watch_changed(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - the observer's shape
        """Report what can be watched again, or cannot."""
        event = "watched" if ok else "not_watched"
        self._announcements.log_state(event, ok, of_cluster(self._name, sentence))
        self._announcements.instruments.watch_notes.inc()

    def writes_changed(self, what: str, ok: bool, sentence: str) -> None:  # noqa: FBT001 - as above
        """Report whether "events", "statuses" or "deletion_costs" can be written."""
        self._announcements.log_state(what, ok, of_cluster(self._name, sentence))

    def role_changed(self, role: Role, sentence: str) -> None:
        """Report the role of this process in the election."""
        ok = role not in {Role.LOST, Role.UNREADABLE}
        # The health keeps nothing of a cluster that a reload removes.
        gone = bool(self._name) and role is Role.RESIGNED
        component = None if gone else part_of(Component.LEADERSHIP, self._name)
        told = of_cluster(self._name, sentence)
        self._announcements.log_state("leadership", ok, told, component, standing=role.value)
        self._announcements.leads(self._name, role)
