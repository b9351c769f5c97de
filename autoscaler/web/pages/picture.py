"""A picture of rehearsals, by matplotlib, which is an extra: for a chat message."""

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from autoscaler.core.text import printable
from autoscaler.rendering.rehearsal import RehearsalAnswer, RehearsedTarget

_MOST_TARGETS = 4
_WIDTH, _HEIGHT = 10.0, 3.2
_LONGEST_TITLE = 100


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
    lines = first.lines
    times = [datetime.fromtimestamp(time, UTC) for time in lines.times]
    demand, ready = _numbers(lines.demand_high), _numbers(lines.ready_low)
    axis.step(times, demand, where="post", color="#b45309", linewidth=1.0, label="demand in pods")
    if any(one is not None for one in lines.ran):
        ran = _numbers(lines.ran)
        axis.step(times, ran, where="post", color="#6b7685", linestyle="--", label="really ran")
    if len(rehearsals) == 1:
        short = [one > other for one, other in zip(demand, ready, strict=True)]
        shade = {"step": "post", "color": "#b3261e", "alpha": 0.35, "label": "shortage"}
        axis.fill_between(times, demand, ready, where=short, **shade)
    for name, answer in rehearsals.items():
        for one in answer.targets:
            if one.target == first.target:
                own = [datetime.fromtimestamp(time, UTC) for time in one.lines.times]
                label = f"ready pods, {printable(name, _LONGEST_TITLE)}"
                axis.step(own, _numbers(one.lines.ready_low), where="post", label=label)
    axis.set_title(printable(first.target, _LONGEST_TITLE), fontsize="medium", loc="left")
    axis.set_ylim(bottom=0)
    axis.grid(visible=True, alpha=0.25)
    axis.legend(fontsize="small", loc="upper left")


def _numbers(values: Sequence[int | None]) -> list[float]:
    return [float("nan") if one is None else float(one) for one in values]
