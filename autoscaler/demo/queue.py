"""The queue of the demo: a simulation of messages that arrive and workers that consume them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from autoscaler import clock
from autoscaler.demo.children import Ticking
from autoscaler.demo.story import Story

_TICK = 0.25


@dataclass(frozen=True, slots=True)
class Workers:
    """The number of ready and of desired workers."""

    ready: int
    desired: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue at an instant, ``elapsed`` seconds into the story."""

    elapsed: float = 0.0
    published: float = 0.0
    consumed: float = 0.0
    arrival_rate: float = 0.0
    phase: str = ""
    workers: Workers = Workers(0, 0)

    @property
    def waiting(self) -> int:
        """The number of whole messages in the queue."""
        return int(self.published - self.consumed + 1e-6)


def step(story: Story, state: QueueState, elapsed: float, workers: Workers) -> QueueState:
    """Return the state at a later instant, if there were these workers since the last one."""
    published = story.published(elapsed)
    able = workers.ready * story.worker_rate * (elapsed - state.elapsed)
    phase = story.phase_at(elapsed)
    return QueueState(
        elapsed=elapsed,
        published=published,
        consumed=min(published, state.consumed + able),
        arrival_rate=phase.rate,
        phase=phase.name,
        workers=workers,
    )


class RunningQueue(Ticking):
    """Runs the simulation in real time in a thread, from `begin` on, inside a `with` statement.

    ``workers`` returns the workers, or None while they are unknown: then only the time changes.
    ``publish`` gets each state.
    """

    def __init__(
        self,
        story: Story,
        workers: Callable[[], Workers | None],
        publish: Callable[[QueueState], None],
    ) -> None:
        super().__init__(_TICK)
        self._story = story
        self._workers = workers
        self._publish = publish
        self._state = QueueState()
        self._began: float | None = None

    @property
    def state(self) -> QueueState:
        """The latest state; before `begin` only the workers in it change."""
        return self._state

    def begin(self) -> None:
        """Begin the story."""
        self._began = clock.monotonic()

    def _tick(self) -> None:
        workers = self._workers() or self._state.workers
        if self._began is None:
            self._state = replace(self._state, workers=workers)
        else:
            elapsed = clock.monotonic() - self._began
            self._state = step(self._story, self._state, elapsed, workers)
        self._publish(self._state)
