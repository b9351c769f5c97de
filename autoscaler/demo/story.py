"""The story of the demo: when messages arrive, how the target is configured, and the options."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import typer

QUEUE = "orders"
DEPLOYMENT = "order-worker"
METRIC = "demo_queue_messages_ready"


class Phase(NamedTuple):
    """A period in which messages arrive at one rate (messages per second)."""

    name: str
    seconds: float
    rate: float


@dataclass(frozen=True, slots=True)
class Story:
    """The phases, which begin again after the last one, and the settings.

    A worker consumes ``worker_rate`` messages per second and should have no more than
    ``messages_per_worker`` waiting for it.  Durations are in seconds.
    """

    phases: tuple[Phase, ...]
    worker_rate: float = 2.0
    messages_per_worker: int = 20
    max_workers: int = 10
    scale_down_window: int = 12
    sync_period: int = 1
    pod_start: float = 2.0
    longest: float = 150.0
    """When the demo fails if the workers are not back to one; no second round begins before."""

    def phase_at(self, elapsed: float) -> Phase:
        """Return the phase at an instant of the story."""
        elapsed %= self._round
        for phase in self.phases[:-1]:
            if elapsed < phase.seconds:
                return phase
            elapsed -= phase.seconds
        return self.phases[-1]

    def published(self, elapsed: float) -> float:
        """Return how many messages have arrived by an instant of the story."""
        rounds, elapsed = divmod(elapsed, self._round)
        total = rounds * sum(phase.seconds * phase.rate for phase in self.phases) if rounds else 0.0
        for phase in self.phases:
            spent = min(elapsed, phase.seconds)
            total += spent * phase.rate
            elapsed -= spent
        return total

    def with_load(self, share: float) -> "Story":
        """Return the story of a queue to which this share of the messages comes."""
        phases = tuple(phase._replace(rate=phase.rate * share) for phase in self.phases)
        return replace(self, phases=phases)

    @property
    def _round(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    @property
    def last_phase_at(self) -> float:
        """When the last phase begins."""
        return sum(phase.seconds for phase in self.phases[:-1])


STORY = Story((Phase("calm", 6, 1.0), Phase("burst", 22, 16.0), Phase("drain", 122, 1.0)))


@dataclass(frozen=True, slots=True)
class Region:
    """A cluster of the demo, which has this share of the load; the only one has no name."""

    name: str = ""
    share: float = 1.0

    @property
    def labels(self) -> dict[str, str]:
        """What its series carry in the Prometheus of all clusters."""
        return {"cluster": self.name} if self.name else {}


_REGIONS = tuple(
    Region(*one) for one in (("eu", 1.0), ("us", 0.7), ("ap", 0.5), ("sa", 0.8), ("af", 0.6))
)
MOST_CLUSTERS = len(_REGIONS)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says; an embedded stand-in is a cluster of the demo's own."""

    context: Annotated[
        str | None,
        typer.Option(help="Use this context's cluster instead of the embedded stand-in."),
    ] = None
    namespace: Annotated[
        str, typer.Option(help="With --context: the namespace to create and remove.")
    ] = "autoscaler-demo"
    clusters: Annotated[
        int,
        typer.Option(min=1, help="Have so many stand-ins, with one daemon for all of them."),
    ] = 1
    keep: Annotated[
        bool | None,
        typer.Option(
            "--keep/--no-keep",
            help="Whether it then goes on until Ctrl-C; by default it does on a terminal.",
            show_default=False,
        ),
    ] = None
    story: Story = STORY

    @property
    def regions(self) -> Sequence[Region]:
        """The clusters."""
        return (Region(),) if self.clusters == 1 else _REGIONS[: self.clusters]
