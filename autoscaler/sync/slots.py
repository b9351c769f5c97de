"""When each target is synced: together if targets share period and query, otherwise spread.

All other targets of a period are spread over it, at an offset that is a hash of their names and
therefore the same after a restart.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.core.target import Query, Target

_SLOTS_A_PERIOD = 15
_SHORTEST_SLOT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Slot:
    """Targets that are synced together, every ``period`` seconds, ``offset`` seconds into it."""

    period: float
    offset: float
    targets: tuple[Target, ...]

    @property
    def name(self) -> str:
        """A name that is unique in a configuration."""
        return f"{self.period}+{self.offset}"

    def is_part_of(self, other: "Slot | None") -> bool:
        """Return whether another slot has all targets of this one, unchanged."""
        of_other = {} if other is None else {target.key: target for target in other.targets}
        return other is not None and all(
            target == of_other.get(target.key) for target in self.targets
        )


def slots_of(targets: Sequence[Target]) -> tuple[Slot, ...]:
    """Divide targets into slots of at least one second, at most 15 in a period."""
    by_slot: dict[tuple[float, float], list[Target]] = {}
    for target, group in zip(targets, _group_of_each(targets), strict=True):
        period = target.sync_period
        slots = max(1, min(_SLOTS_A_PERIOD, int(period / _SHORTEST_SLOT_SECONDS)))
        offset = zlib.crc32(group.encode()) % slots * period / slots
        by_slot.setdefault((period, offset), []).append(target)
    return tuple(Slot(*when, tuple(members)) for when, members in sorted(by_slot.items()))


def _group_of_each(targets: Sequence[Target]) -> list[str]:
    """Return each target's group: targets of one period that share queries, directly or not."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while (parent := parents.setdefault(name, name)) != name:
            parents[name] = parents.setdefault(parent, parent)
            name = parents[name]
        return name

    for target in targets:
        names = [_group_of(target, query) for query in target.all_queries]
        for name in names:
            # The smaller name is the group's name, so that the order of the targets does not
            # matter.
            first, second = sorted((root(names[0]), root(name)))
            parents[second] = first
    return [root(_group_of(target, target.queries[0])) for target in targets]


def _group_of(target: Target, query: Query) -> str:
    """Return the group of a target with one query; the default server's groups keep their names."""
    return f"{target.sync_period}:{query.server and query.server + ':'}{query.promql}"
