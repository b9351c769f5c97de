"""A policy test that can run: all that its file and its configuration say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.core.breaker import Breaker
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.lab.policy_tests.series_names import NamedSeries, Reader
from autoscaler.lab.policy_tests.settings import Never, PolicyTest


@dataclass(frozen=True)
class ReadyTest:
    """A test that can run; ``number`` is its place in the file, from 0."""

    number: int
    model: PolicyTest
    targets: tuple[Target, ...]
    flags: Flags
    breaker: Breaker | None
    interval: float
    duration: float
    series: tuple[NamedSeries, ...]
    never: tuple[tuple[str, Never], ...]
    """What never happens, and where in the file that stands."""
    generated: tuple[NamedSeries, ...] = ()
    """The series that are made up, without samples."""
    faulty: Mapping[str, frozenset[Reader]] = field(default_factory=dict)
    """Who reads the query that an event names."""
