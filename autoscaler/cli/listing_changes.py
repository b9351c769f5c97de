"""`autoscaler history`: a line for each change, of some targets or of all."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler import clock
from autoscaler.cli import times
from autoscaler.cli.recorded import Place, SourceError, source_of
from autoscaler.cli.target_names import UnknownTargetError, chosen
from autoscaler.config import ConfigError
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable
from autoscaler.record.rows import Change, Lapse
from autoscaler.rendering.instant import change_json

_AFTER = 1e-3
_GAP = "  "


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when, as people write times, and at most how many changes, the last ones."""

    since: str = "24h"
    until: str = "now"
    limit: int = 1000


def print_history(names: Sequence[str], span: Span, place: Place, *, as_json: bool) -> int:
    """Print the changes of the named targets, or of all, the first one first."""
    now = clock.wall()
    try:
        begin, end = _between(span, now)
        source = source_of(place)
        keys = sorted(chosen(names, source.targets())) if names else None
        found = source.changes(keys, begin, end + _AFTER, span.limit + 1)
        lapses = source.lapses(found)
    except (ConfigError, UnknownTargetError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    shown = list(reversed(found[: span.limit]))
    if as_json:
        print(json.dumps([change_json(one) for one in shown], indent=2))
    else:
        where = f"from {source.name}; times are in {times.zone(now)}"
        print(where, file=sys.stderr)
        _print_lines(shown, lapses)
    if not shown:
        print(f"no change is recorded since {times.local(begin)}", file=sys.stderr)
    if len(found) > span.limit:
        more = f"there are more than the {span.limit} of --limit; the last ones are shown"
        print(more, file=sys.stderr)
    return 0


def _between(span: Span, now: float) -> tuple[float, float]:
    """Return the instants of a span; raises ValueError."""
    begin = times.instant(span.since, now)
    end = times.last_of(times.instant(span.until, now))
    if begin > end:
        raise ValueError(f"--since, {times.local(begin)}, is after --until, {times.local(end)}")
    return begin, end


def _print_lines(shown: Sequence[Change], lapses: Sequence[Lapse]) -> None:
    timed = [(one.time, _cells(one)) for one in shown]
    timed += [(one.begin, _unrecorded(one)) for one in lapses]
    rows = [row for _, row in sorted(timed, key=lambda one: one[0])]
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print(_GAP.join([*cells, row[-1]]))


def _cells(one: Change) -> tuple[str, ...]:
    """Return time, target, counts, state and sentence."""
    at = times.local(one.time)
    message = times.localized(printable(one.message, LONGEST_SENTENCE), one.time)
    return at, printable(one.target), _counts(one), printable(one.state), message


def _unrecorded(one: Lapse) -> tuple[str, ...]:
    until = times.local(one.end)
    return times.local(one.begin), "-", "-", "-", f"nothing was recorded until {until}"


def _counts(one: Change) -> str:
    if one.current is None:
        return "?"
    changed = one.desired is not None and one.desired != one.current
    return f"{one.current} -> {one.desired}" if changed else str(one.current)
