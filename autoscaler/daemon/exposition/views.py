"""What the API and the pages show; each part is asked at each request, by any thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoscaler.config import Config
from autoscaler.daemon.exposition.target_states import TargetStates
from autoscaler.daemon.health import Health
from autoscaler.record.rows import RecordReader
from autoscaler.sync.breakers import BreakerStatus

RECORD_IS_OFF = "the record is off: `record` is null"


@dataclass(frozen=True, slots=True)
class Views:
    """The daemon as it is seen from outside.

    ``record`` is None if nothing is recorded; ``leads`` is None without leader election.
    """

    states: TargetStates
    health: Health
    config: Callable[[], Config]
    """The configuration in force."""
    record: RecordReader | None
    breakers: Callable[[], Sequence[BreakerStatus]]
    leads: Callable[[], bool | None]
