"""A picture of rehearsals, by matplotlib, which is an extra: for a chat message."""

import io
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from autoscaler.core.text import printable
from autoscaler.rendering.rehearsal import RehearsalAnswer, RehearsedTarget

_MOST_TARGETS = 4
_WIDTH, _HEIGHT = 10.0, 3.2
_LONGEST_TITLE = 100
_DEMAND = "#b45309"


class NoLibraryError(Exception):
    """The library is not installed; the text says how to install it."""


def picture_of(rehearsals: Mapping[str, RehearsalAnswer], title: str) -> bytes:
    """Return a PNG of the first targets.  Raises NoLibraryError."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise NoLibraryError(
            "a picture needs matplotlib, which pip install --require-hashes -r "
            "requirements-rehearsal.lock installs in the checkout of this project"
        ) from None
    first = next(iter(rehearsals.values()))
    targets = first.targets[:_MOST_TARGETS]
    figure = Figure(figsize=(_WIDTH, _HEIGHT * max(len(targets), 1)), layout="constrained")
    left = len(first.targets) - len(targets)
    more = f" (and {left} more targets)" if left else ""
    figure.suptitle(f"{printable(title, _LONGEST_TITLE)}{more}")
    axes = figure.subplots(max(len(targets), 1), squeeze=False)[:, 0]
    for axis, target in zip(axes, targets, strict=False):
        _draw(axis, target, rehearsals)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()


def _draw(axis: Any, first: RehearsedTarget, rehearsals: Mapping[str, RehearsalAnswer]) -> None:
    lines, times = first.lines, _ends(first)
    axis.plot(times, _twice(lines.demand), color=_DEMAND, linewidth=1.0, label="demand in pods")
    _fill(axis, times, lines.demand_low, lines.demand_high, color=_DEMAND, alpha=0.18)
    if any(one is not None for one in lines.ran):
        axis.plot(times, _twice(lines.ran), color="#6b7685", linestyle="--", label="really ran")
    if len(rehearsals) == 1 and any(lines.short):
        least = [
            None if most is None or short is None else most - short
            for most, short in zip(lines.demand_high, lines.short, strict=True)
        ]
        shade = {"color": "#b3261e", "alpha": 0.35, "label": "shortage"}
        _fill(axis, times, least, lines.demand_high, **shade)
    for name, answer in rehearsals.items():
        for one in answer.targets:
            if one.target == first.target:
                own, label = _ends(one), f"ready pods, {printable(name, _LONGEST_TITLE)}"
                (ready,) = axis.plot(own, _twice(one.lines.ready), label=label)
                shade = {"color": ready.get_color(), "alpha": 0.18}
                _fill(axis, own, one.lines.ready_low, one.lines.ready_high, **shade)
    axis.set_title(printable(first.target, _LONGEST_TITLE), fontsize="medium", loc="left")
    axis.set_ylim(bottom=0)
    axis.grid(visible=True, alpha=0.25)
    axis.legend(fontsize="small", loc="upper left")


def _fill(
    axis: Any,
    times: Sequence[datetime],
    low: Sequence[int | None],
    high: Sequence[int | None],
    **shade: Any,
) -> None:
    axis.fill_between(times, _twice(low), _twice(high), linewidth=0, **shade)


def _ends(target: RehearsedTarget) -> list[datetime]:
    """Return the begin and the end of each part: a shade of steps would leave out single ones."""
    instants = [*target.lines.times, target.end]
    return [datetime.fromtimestamp(time, UTC) for part in pairwise(instants) for time in part]


def _twice(values: Sequence[int | None]) -> list[float]:
    """Return the number of each part for its begin and its end."""
    numbers = (math.nan if one is None else float(one) for one in values)
    return [number for one in numbers for number in (one, one)]
