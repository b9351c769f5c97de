"""What is known of the past by the Prometheus servers of a configuration, for rehearsals."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autoscaler.config import Config
from autoscaler.core.observation import PodRequests
from autoscaler.core.target import QueryKey, Target
from autoscaler.rehearsal.answers import Answers
from autoscaler.rehearsal.loads import Totals
from autoscaler.rehearsal.time_grid import TimeGrid
from autoscaler.settings.assumptions import Assumptions

Progress = Callable[[int, int], object]
"""Is called with how many parts are at hand, and how many there are."""


class DataError(Exception):
    """There is nothing to rehearse; the text has sentences for the operator."""


@dataclass(frozen=True)
class PrometheusData:
    """Fits `autoscaler.rehearsal.building.RehearsalData`; it can be pickled.

    All of it is on disk: nothing is asked any more, and each call begins anew.
    """

    told: tuple[str, ...] = ()
    """What is odd about the data, in sentences."""

    def answers(self, query: QueryKey) -> Answers:
        """Fit `RehearsalData`."""
        raise NotImplementedError

    def totals(self, target: Target, number: int) -> Totals:
        """Fit `RehearsalData`."""
        raise NotImplementedError

    def ran(self, target: Target) -> Answers | None:
        """Fit `RehearsalData`."""
        raise NotImplementedError

    def replicas(self, target: Target) -> int | None:
        """Fit `RehearsalData`."""
        raise NotImplementedError

    def ready_seconds(self, target: Target) -> float | None:
        """Fit `RehearsalData`."""
        raise NotImplementedError

    def requests(self, target: Target) -> PodRequests | None:
        """Fit `RehearsalData`."""
        raise NotImplementedError


@contextmanager
def prometheus_data(
    config: Config,
    targets: Sequence[Target],
    assumptions: Assumptions,
    grid: TimeGrid,
    cache: Path | None,
    progress: Progress = lambda *_: None,
) -> Iterator[PrometheusData]:
    """Ask all that a rehearsal of the targets needs, and give it for as long as the block lasts.

    ``cache`` is a folder for what was asked, which is made; None keeps nothing.  What could not be
    read is a `QueryFailure` for its time.  Raises DataError.
    """
    raise NotImplementedError
    yield PrometheusData()
