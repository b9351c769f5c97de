"""Short ways to ask for a limit at `BASE`."""

from autoscaler.core.decision import Limit
from autoscaler.core.history import History, ScaleEvent
from autoscaler.core.normalize import Events, limit
from autoscaler.core.numbers import INT32_MAX
from autoscaler.core.spec import Behavior, ScalingPolicy, SelectPolicy
from tests.core.builders import BASE, behavior, rules

MAX, MIN, DISABLED = SelectPolicy.MAX, SelectPolicy.MIN, SelectPolicy.DISABLED
FREE = (0, INT32_MAX)


def events(*changes: tuple[int, float]) -> Events:
    """Return scale events: by how many replicas, and how many seconds ago."""
    return tuple(ScaleEvent(change, BASE - ago) for change, ago in changes)


def limited(
    current: int,
    wanted: int,
    rules: Behavior,
    bounds: tuple[int, int] = FREE,
    ups: Events = (),
    downs: Events = (),
) -> Limit:
    return limit(current, wanted, bounds, rules, History(scale_ups=ups, scale_downs=downs), BASE)


def up(*policies: ScalingPolicy, select: SelectPolicy = MAX) -> Behavior:
    return behavior(up=rules(*policies, select=select))


def down(*policies: ScalingPolicy, select: SelectPolicy = MAX) -> Behavior:
    return behavior(down=rules(*policies, select=select))
