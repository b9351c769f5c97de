"""The fleets that the pages show: none, one target, ten with a story, three clusters, many."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from autoscaler.config import Config, load
from autoscaler.core.extensions import Extensions, Schedule
from autoscaler.core.observation import Gap, GapKind, Hpa, HpaStatus, Values
from autoscaler.core.spec import (
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricIdentifier,
    MetricTarget,
    TargetType,
)
from autoscaler.core.target import Target
from autoscaler.kubernetes.election import ClusterLeader
from tests.core.hpa_beside import status_of
from tests.worlds.daemon import Document, external, target
from tests.worlds.pages.playing import NO_ANSWER, Moment, Play, Player, value

NOW = 1_773_286_200.0
"""2026-03-12T03:30:00Z, which is half past four in Berlin."""
STORY_SECONDS = 3 * 3600.0
"""How long the syncs of the small fleets have lasted by then."""
AT_THREE = NOW - 78 * 60
"""What happens to the queue at twelve past three: somebody else sets its workers to two."""
SYNCED_BEFORE = 5.0
"""How long before `NOW` the last sync was."""
BIDI = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
"""Characters that turn the letters after them."""
HOSTILE = (
    "<script>document.title = 'pwned'</script>",
    "\"'><img src=x onerror=document.body.remove()>",
    "javascript:document.body.remove()",
    "red \x1b[31mtext\x1b[0m\r\nand a line",
    "exe.\u202egnp.harmless\u2066",
    "../../health?last=1h&at=%00#main",
    "{{ 7 * 7 }} {% raw %} ${7 * 7}",
    "long " + "x" * 10_000,
)
"""Texts that names, messages and labels may contain."""

_Workload = tuple[Document, int, Play]
"""A target of the configuration, its replicas at first, and what becomes of it."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Targets, the configuration that they are of, and the state directory of their record."""

    config: Config
    state: Path
    players: list[Player]
    seconds: float
    """How long they have been synced by `NOW`."""
    leaders: tuple[ClusterLeader, ...] | None = None
    """None without leader election."""

    @property
    def begin(self) -> float:
        """When the first sync was."""
        return NOW - SYNCED_BEFORE - self.seconds

    def with_players(self, players: list[Player], seconds: float) -> "Fleet":
        """Return a fleet of other targets in the same folder."""
        targets = tuple(player.target for player in players)
        config = self.config.model_copy(update={"targets": targets})
        return Fleet(config, self.state, players, seconds)


def nothing(folder: Path) -> Fleet:
    """Return a daemon without targets."""
    return Fleet(_config(folder, []), folder / "state", [], 0.0)


def single(folder: Path) -> Fleet:
    """Return the queue and its workers alone."""
    return _fleet(folder, _queue())


def story(folder: Path) -> Fleet:
    """Return a target in each state that a fleet may be in, and the queue whose night was busy."""
    shift = {
        "name": "early-shift",
        "start": "0 4 * * *",
        "end": "0 10 * * *",
        "timezone": "Europe/Berlin",
        "minReplicas": 6,
    }
    idle = {"replicas": 0, "after": "5m"}
    controlled = Moment((value(200),), controller="HorizontalPodAutoscaler legacy")
    return _fleet(
        folder,
        _queue(),
        _workload("web", 12, _web, "requests", "100", maxReplicas=40),
        _workload("checkout", 6, _steady(640), "requests", "50", maxReplicas=8),
        _workload("mailer", 4, _failing, "mails", "20"),
        _workload("reports", 5, _paused, "jobs", "5", maxReplicas=12),
        _workload("search", 2, _steady(310), "requests", "200", schedules=[shift]),
        _workload("thumbnails", 1, _until(3600, 8, 0), "jobs", "10", idle=idle),
        _workload("payments", 5, _steady(390), "requests", "80"),
        _workload("invoices", 3, _failing, "jobs", "10", fallback={"replicas": 6}),
        _workload("legacy", 3, lambda *_: controlled, "requests", "90"),
    )


def regions(folder: Path) -> Fleet:
    """Return three clusters with equal workloads; this process leads the first."""
    leaders = (
        ClusterLeader("eu", leading=True, holder="autoscaler-0_5f2a91c4"),
        *(
            ClusterLeader(
                name,
                leading=False,
                holder="autoscaler-1_c07e33d8",
                url="http://autoscaler-1.autoscaler:9191",
            )
            for name in ("us", "ap")
        ),
    )
    workloads = [
        workload
        for place, share in (("eu", 1.0), ("us", 0.7), ("ap", 0.4))
        for workload in (
            _workload(
                "web", 12, _shared(_web, share), "requests", "100", maxReplicas=40, cluster=place
            ),
            _workload(
                "checkout", 6, _steady(640 * share), "requests", "50", maxReplicas=8, cluster=place
            ),
            _workload("payments", 5, _steady(390 * share), "requests", "80", cluster=place),
        )
    ]
    workloads.insert(-1, _workload("mailer", 4, _failing, "mails", "20", cluster="ap"))
    made = _fleet(folder, *workloads, clusters=[leader.cluster for leader in leaders])
    return replace(made, leaders=leaders)


def _shared(play: Play, share: float) -> Play:
    """Return what is seen where this share of the load comes."""

    def moment(elapsed: float, replicas: int) -> Moment:
        (reading,) = play(elapsed, replicas).readings
        assert isinstance(reading, Values)
        return Moment((Values(tuple(int(number * share) for number in reading.values)),))

    return moment


def moving(folder: Path) -> Fleet:
    """Return targets on their way from their HPAs to us: some moved, others in shadow."""
    shifted = _beside(theirs=lambda spec: replace(spec, max_replicas=8))
    other = _beside(their_play=lambda elapsed, count: _waves(elapsed * 1.4, count))
    late = _beside(begin=STORY_SECONDS - 2400)
    keda = _beside(scaled_object="feeds")
    fleet = _fleet(
        folder,
        _queue(),
        _workload("payments", 5, _steady(390), "requests", "80"),
        _workload("web", 12, _web, "requests", "100", maxReplicas=40),
        *(
            _workload(name, 5, _waves, "requests", "40", mode="shadow", maxReplicas=20)
            for name in ("accounts", "carts", "emails", "feeds", "images", "ledger", "quotes")
        ),
    )
    plays = {"accounts": _beside(), "carts": shifted, "emails": other, "feeds": keda}
    plays |= {"images": _beside(), "quotes": late}
    for player in fleet.players:
        made = plays.get(player.target.spec.scale_target_ref.name)
        if made is not None:
            player.play = made(player)
    return fleet


def many(folder: Path, count: int = 10_000) -> Fleet:
    """Return many targets in fifty namespaces, with some targets in each state."""
    few = story(folder)
    usual = next(player for player in few.players if player.target.key.endswith("/payments"))
    players = []
    for number in range(count):
        like = few.players[number // 20 % 10] if number % 20 == 0 else usual
        name = f"{like.target.spec.scale_target_ref.name}-{number:05d}"
        named = _named(like.target, f"team-{number % 50:02d}", name)

        def late(elapsed: float, replicas: int, play: Play = like.play) -> Moment:
            return play(elapsed + STORY_SECONDS - 900, replicas)

        players.append(Player(named, late, like.replicas))
    return few.with_players(players, 15.0)


def hostile(folder: Path) -> Fleet:
    """Return a target for each text of `HOSTILE`, which has it wherever a text may stand."""
    few = single(folder)
    players = [
        Player(_everywhere(few.players[0].target, text), _attack(text), 3) for text in HOSTILE
    ]
    return few.with_players(players, 120.0)


def _everywhere(target: Target, text: str) -> Target:
    """Put a text into all names of a target and into its query."""
    metric = ExternalMetric(
        MetricIdentifier(text, LabelSelector((("label", text),))),
        MetricTarget(TargetType.AVERAGE_VALUE, average_value=30_000),
    )
    spec = replace(target.spec, metrics=(metric,))
    schedule = Schedule(text, "0 0 * * *", "0 23 * * *", "UTC", 2)
    return replace(
        _named(replace(target, spec=spec), "shop", _name(text)),
        queries=(replace(target.queries[0], promql=text),),
        extensions=replace(target.extensions, schedules=(schedule,)),
    )


def _name(text: str) -> str:
    """Return a text as a name, which a configuration admits without a slash and a percent sign."""
    return " ".join(re.sub("[/%]", "|", text).split())


def _attack(text: str) -> Play:
    """Put a text into a server's error, the manager of the replicas and an annotation."""

    def moment(elapsed: float, _: int) -> Moment:
        return Moment(
            (Gap(GapKind.ERROR, text) if elapsed > 60 else value(90),),
            replicas=7 if elapsed == 45 else None,
            manager=text,
            annotations=(("autoscaler/paused", text),) if elapsed in {75, 90} else (),
        )

    return moment


def _named(target: Target, namespace: str, name: str) -> Target:
    ref = replace(target.spec.scale_target_ref, name=name)
    return replace(target, namespace=namespace, spec=replace(target.spec, scale_target_ref=ref))


def _fleet(folder: Path, *workloads: _Workload, clusters: Sequence[str] = ()) -> Fleet:
    config = _config(folder, [document for document, _, _ in workloads], clusters)
    players = [
        Player(target, play, replicas)
        for target, (_, replicas, play) in zip(config.targets, workloads, strict=True)
    ]
    return Fleet(config, folder / "state", players, STORY_SECONDS)


def _config(folder: Path, entries: list[Document], clusters: Sequence[str] = ()) -> Config:
    connections = [{"name": name, "context": name} for name in clusters]
    document = {
        **({"clusters": connections} if connections else {}),
        "prometheus": {"url": "http://127.0.0.1:9090"},
        "queries": {
            "messages": 'sum by (queue) (rabbitmq_queue_messages_ready{namespace="rabbitmq"})',
            "requests": "sum by (namespace) (rate(http_requests_total[2m]))",
            "mails": "mail_queue_length",
            "jobs": "jobs_waiting",
        },
        "targets": entries,
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "autoscaler.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return load(file).model_copy(update={"path": Path("/etc/autoscaler/autoscaler.yaml")})


def _workload(
    name: str, replicas: int, play: Play, metric: str, average: str, **more: object
) -> _Workload:
    rules = {"minReplicas": 1, "maxReplicas": 20} | more
    return target("shop", name, external(metric, average), **rules), replicas, play


def _queue() -> _Workload:
    rules = {
        "scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]},
        "scaleDown": {"stabilizationWindowSeconds": 600},
    }
    return _workload("order-worker", 3, _orders, "messages", "30", behavior=rules)


# -- what happens to them ------------------------------------------------------------------------


def _steady(number: float) -> Play:
    return lambda elapsed, _: Moment((value(number * (1 + 0.04 * math.sin(elapsed / 300))),))


def _until(seconds: float, before: float, after: float) -> Play:
    return lambda elapsed, _: Moment((value(before if elapsed < seconds else after),))


def _orders(elapsed: float, _: int) -> Moment:
    """Waves of messages, five minutes without an answer, and others who set the count."""
    waiting = 60 + 55 * math.sin(elapsed / 500) + 380 * math.exp(-(((elapsed - 5400) / 1100) ** 2))
    reading = NO_ANSWER if 7800 <= elapsed < 8100 else value(max(waiting, 0) // 1)
    first_sync = NOW - SYNCED_BEFORE - STORY_SECONDS
    by_hand = 2 if elapsed == math.ceil((AT_THREE - first_sync) / 15) * 15.0 else None
    return Moment((reading,), replicas=by_hand)


def _web(elapsed: float, _: int) -> Moment:
    wave: Callable[[float], float] = math.sin
    return Moment((value(1500 + 900 * wave(elapsed / 1700) + 60 * wave(elapsed / 90)),))


def _waves(elapsed: float, _: int) -> Moment:
    """Go up and down in twenty minutes."""
    return Moment((value(300 - 200 * math.cos(elapsed / 190)),))


def _beside(
    theirs: Callable[[HorizontalPodAutoscalerSpec], HorizontalPodAutoscalerSpec] = lambda item: (
        item
    ),
    their_play: Play | None = None,
    begin: float = 0.0,
    scaled_object: str = "",
) -> Callable[[Player], Play]:
    """Return what adds to a target's play an HPA that syncs eight seconds before each sync.

    It is there from so many seconds on, and is a target that is written: with a spec made from that
    of the target, and perhaps another play.
    """

    def made(player: Player) -> Play:
        spec = theirs(player.target.spec)
        live = replace(player.target, spec=spec, extensions=Extensions())
        play, hpa = player.play, Hpa("keda-hpa-" * bool(scaled_object) + spec.scale_target_ref.name)
        there = Player(live, their_play or play, player.replicas)
        hpa = replace(hpa, spec=spec, scaled_object=scaled_object)
        statuses: list[HpaStatus] = []

        def moment(elapsed: float, replicas: int) -> Moment:
            if elapsed < begin:
                return play(elapsed, replicas)
            time = NOW - SYNCED_BEFORE - STORY_SECONDS + elapsed - 8
            status = status_of(there.sync(time, elapsed - 8).decision, time)
            if not statuses or replace(statuses[-1], time=time) != status:
                statuses.append(status)
            count = None if there.replicas == replicas else there.replicas
            return replace(
                play(elapsed, replicas),
                replicas=count,
                manager="kube-controller-manager",
                hpa=replace(hpa, statuses=tuple(statuses[-2:])),
            )

        return moment

    return made


def _failing(elapsed: float, _: int) -> Moment:
    return Moment((value(70) if elapsed < 9000 or elapsed < 20 else NO_ANSWER,))


def _paused(elapsed: float, _: int) -> Moment:
    annotations = (("autoscaler/paused", "true"),) if elapsed > 6000 else ()
    return Moment((value(45 if elapsed > 7000 else 24),), annotations=annotations)
