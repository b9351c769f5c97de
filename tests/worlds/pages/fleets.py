"""The fleets that the pages show: none, one target, ten with a story, and ten thousand."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from autoscaler.config import Config, load
from autoscaler.core.extensions import Schedule
from autoscaler.core.observation import Gap, GapKind
from autoscaler.core.selectors import LabelSelector
from autoscaler.core.spec import ExternalMetric, MetricIdentifier, MetricTarget, TargetType
from autoscaler.core.target import Target
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
"""What a name, a message or a label may hold."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Targets, the configuration that they are of, and the state directory of their record."""

    config: Config
    state: Path
    players: list[Player]
    seconds: float
    """How long they have been synced by `NOW`."""

    @property
    def begin(self) -> float:
        """When the first sync was."""
        return NOW - SYNCED_BEFORE - self.seconds


def nothing(folder: Path) -> Fleet:
    """Return a daemon without targets."""
    return Fleet(_config(folder, []), folder / "state", [], 0.0)


def one(folder: Path) -> Fleet:
    """Return the queue and its workers alone."""
    return _fleet(folder, {"order-worker": (_queue(), 3, _orders)})


def story(folder: Path) -> Fleet:
    """Return a target in each state that a fleet may be in, and the queue whose night was busy."""
    return _fleet(
        folder,
        {
            "order-worker": (_queue(), 3, _orders),
            "web": (_entry("requests", "100", maximum=40), 12, _web),
            "checkout": (_entry("requests", "50", maximum=8), 6, _steady(640)),
            "mailer": (_entry("mails", "20"), 4, _failing),
            "reports": (_entry("jobs", "5", maximum=12), 5, _paused),
            "search": (
                _entry(
                    "requests",
                    "200",
                    schedules=[
                        {
                            "name": "early-shift",
                            "start": "0 4 * * *",
                            "end": "0 10 * * *",
                            "timezone": "Europe/Berlin",
                            "minReplicas": 6,
                        }
                    ],
                ),
                2,
                _steady(310),
            ),
            "thumbnails": (
                _entry("jobs", "10", idle={"replicas": 0, "after": "5m"}),
                1,
                _until(3600, 8, 0),
            ),
            "payments": (_entry("requests", "80"), 5, _steady(390)),
            "invoices": (_entry("jobs", "10", fallback={"replicas": 6}), 3, _failing),
            "legacy": (_entry("requests", "90"), 3, _controlled),
        },
    )


def many(folder: Path, count: int = 10_000) -> Fleet:
    """Return many targets in fifty namespaces, of which some are in each state."""
    few = story(folder)
    of_story = [(player.target, player.play, player.replicas) for player in few.players]
    usual = next(one for one in of_story if one[0].key.endswith("/payments"))
    players = []
    for number in range(count):
        target, play, replicas = of_story[number // 20 % 10] if number % 20 == 0 else usual
        name = f"{target.spec.scale_target_ref.name}-{number:05d}"
        named = _named(target, f"team-{number % 50:02d}", name)
        players.append(Player(named, _late(play), replicas))
    targets = tuple(player.target for player in players)
    config = few.config.model_copy(update={"targets": targets})
    return Fleet(config, few.state, players, 15.0)


def _late(play: Play) -> Play:
    return lambda elapsed, replicas: play(elapsed + STORY_SECONDS - 900, replicas)


def hostile(folder: Path) -> Fleet:
    """Return a target for each text of `HOSTILE`, which has it wherever a text may stand."""
    few = one(folder)
    players = [
        Player(_everywhere(few.players[0].target, text), _attack(text), 3) for text in HOSTILE
    ]
    targets = tuple(player.target for player in players)
    config = few.config.model_copy(update={"targets": targets})
    return Fleet(config, few.state, players, 120.0)


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
    """Say a text as a server, as whoever sets the replicas, and in an annotation."""

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


def _fleet(folder: Path, workloads: dict[str, tuple[dict[str, Any], int, Play]]) -> Fleet:
    entries = [_of(name, entry) for name, (entry, _, _) in workloads.items()]
    config = _config(folder, entries)
    players = [
        Player(target, play, replicas)
        for target, (_, replicas, play) in zip(config.targets, workloads.values(), strict=True)
    ]
    return Fleet(config, folder / "state", players, STORY_SECONDS)


def _config(folder: Path, entries: list[dict[str, Any]]) -> Config:
    document = {
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


def _of(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {"namespace": "shop", "scaleTargetRef": ref, **entry}


def _entry(metric: str, average: str, *, maximum: int = 20, **more: object) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": average}
    external = {"metric": {"name": metric}, "target": target}
    return {
        "minReplicas": 1,
        "maxReplicas": maximum,
        "metrics": [{"type": "External", "external": external}],
        **more,
    }


def _queue() -> dict[str, Any]:
    rules = {
        "scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]},
        "scaleDown": {"stabilizationWindowSeconds": 600},
    }
    return _entry("messages", "30", behavior=rules)


# -- what happens to them ------------------------------------------------------------------------


def _steady(number: float) -> Play:
    return lambda elapsed, _: Moment((value(number * (1 + 0.04 * math.sin(elapsed / 300))),))


def _until(seconds: float, before: float, after: float) -> Play:
    return lambda elapsed, _: Moment((value(before if elapsed < seconds else after),))


def _orders(elapsed: float, _: int) -> Moment:
    """Waves of messages, five minutes without an answer, and others who set the count."""
    waiting = 60 + 55 * math.sin(elapsed / 500) + 380 * math.exp(-(((elapsed - 5400) / 1100) ** 2))
    reading = NO_ANSWER if 7800 <= elapsed < 8100 else value(max(waiting, 0) // 1)
    by_hand = 2 if elapsed == _sync_after(AT_THREE) else None
    return Moment((reading,), replicas=by_hand)


def _sync_after(instant: float) -> float:
    """Return how long after the first sync the first one from an instant on is."""
    return math.ceil((instant - (NOW - SYNCED_BEFORE - STORY_SECONDS)) / 15) * 15.0


def _web(elapsed: float, _: int) -> Moment:
    wave: Callable[[float], float] = math.sin
    return Moment((value(1500 + 900 * wave(elapsed / 1700) + 60 * wave(elapsed / 90)),))


def _failing(elapsed: float, _: int) -> Moment:
    return Moment((value(70) if elapsed < 9000 or elapsed < 20 else NO_ANSWER,))


def _paused(elapsed: float, _: int) -> Moment:
    annotations = (("autoscaler/paused", "true"),) if elapsed > 6000 else ()
    return Moment((value(45 if elapsed > 7000 else 24),), annotations=annotations)


def _controlled(_: float, __: int) -> Moment:
    return Moment((value(200),), controller="HorizontalPodAutoscaler legacy")
