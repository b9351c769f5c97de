"""Whose samples the series of a test are: the metrics and queries that its names stand for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

from autoscaler.config.error_messages import suggestion
from autoscaler.config.promql_parser import VectorSelector, parse
from autoscaler.core.breaker import Breaker
from autoscaler.core.observation import HOLD_QUERY
from autoscaler.core.spec import Flags
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.assumptions import LoadAssumption
from autoscaler.lab.policy_tests.settings import Never, PolicyTest
from autoscaler.lab.series_notation import Item

Reader: TypeAlias = tuple[str, int] | QueryKey
"""Who reads a series: a metric, by the key of its target and its number, or another query."""


class NamedSeries(NamedTuple):
    """A series of a test: its name there, who reads it, its labels if it states any."""

    name: str
    readers: tuple[Reader, ...]
    labels: Mapping[str, str] | None
    items: tuple[Item, ...]


class SeriesNames:
    """The names that series of some targets may have, and who reads them."""

    def __init__(
        self,
        targets: Sequence[Target],
        loads: Iterable[LoadAssumption],
        of_queries: Mapping[QueryKey, str],
    ) -> None:
        self._readers: dict[str, dict[Reader, None]] = {}
        arrivals = [load for load in loads if load.arrivals is not None]
        self.metrics: dict[Reader, str] = {}
        """Those that need a series, and their names."""
        for target in targets:
            for number, (metric, query) in enumerate(
                zip(target.spec.metrics, target.queries, strict=True)
            ):
                name = metric.name
                self._add((target.key, number), name, query.promql)
                served = [one for one in arrivals if fnmatchcase(name, one.metric)]
                for load in served:
                    self._add(QueryKey(query.server, load.arrivals or ""), load.arrivals or "")
                if not served:
                    self.metrics[target.key, number] = name
            for name, other in self._others(target):
                self._add(other, name, other.promql, of_queries.get(other, name))
                if name != HOLD_QUERY:
                    self.metrics[other] = name

    def _add(self, reader: Reader, *names: str) -> None:
        for name in names:
            self._readers.setdefault(name, {})[reader] = None

    @staticmethod
    def _others(target: Target) -> Iterable[tuple[str, QueryKey]]:
        bounds = (
            ("minReplicasQuery", target.min_replicas_query),
            ("maxReplicasQuery", target.max_replicas_query),
        )
        yield from ((name, query.key) for name, query in bounds if query is not None)
        if target.hold is not None:
            yield HOLD_QUERY, target.hold.query.key

    def series(self, name: str, items: tuple[Item, ...] = ()) -> NamedSeries:
        """Return the series of a name.  Raises ValueError with the sentence."""
        labels = None
        readers = self._readers.get(name)
        if readers is None and name.endswith("}"):
            base, _, rest = name.partition("{")
            readers = self._readers.get(base.strip())
            labels = None if readers is None else _labels(f"{{{rest}")
        if readers is None:
            known = suggestion(name, self._readers)
            raise ValueError(f"is no query and no metric of what is tested: {known}")
        return NamedSeries(name, tuple(readers), labels, items)


def _labels(text: str) -> Mapping[str, str]:
    """Read the labels of a series, such as ``{pod="web-0"}``.  Raises ValueError."""
    try:
        selector = parse(text)
    except ValueError:
        selector = None
    matchers = selector.matchers if isinstance(selector, VectorSelector) else None
    if matchers is None or any(one.operator != "=" or "\\" in one.written for one in matchers):
        raise ValueError('has labels that cannot be read: write them as {pod="web-0", a="b"}')
    return {matcher.label: matcher.value for matcher in matchers}


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
    faulty: Mapping[str, frozenset[Reader]]
    """Who reads the query that an event names."""
