"""`autoscaler explain`: what held for a target at any instant, and why."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler import clock
from autoscaler.cli import times
from autoscaler.cli.recorded import DirectorySource, Place, Source, SourceError, source_of
from autoscaler.cli.target_names import UnknownTargetError, chosen
from autoscaler.cli.wrapping import EXPLAINED_FROM, print_text
from autoscaler.config import ConfigError
from autoscaler.core.entry import is_same, recompute
from autoscaler.core.text import rfc3339_milli
from autoscaler.record.rows import RecordError
from autoscaler.rendering.explanation import labelled
from autoscaler.rendering.instant import Explanation, explanation_json

_MOST_EXPLAINED = 1000
_AFTER = 1e-3


@dataclass(frozen=True, slots=True)
class Asked:
    """Which decisions: at an instant, the last one that changed the count, or all since one.

    ``at`` and ``since`` are as people write times; ``recompute`` decides each again.
    """

    at: str | None = None
    last_change: bool = False
    since: str | None = None
    recompute: bool = False
    as_json: bool = False


def print_explanation(name: str, asked: Asked, place: Place) -> int:
    """Print what held for the named target; return the exit code."""
    now = clock.wall()
    try:
        at = now if asked.at is None else times.last_of(times.instant(asked.at, now))
        since = None if asked.since is None else times.instant(asked.since, now)
        source = source_of(place)
        keys = chosen([name], source.targets())
        found = [one for key in sorted(keys) for one in _found(source, key, asked, at, since)]
    except (ConfigError, UnknownTargetError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    if asked.recompute and not isinstance(source, DirectorySource):
        print("--recompute reads a state directory: give --state-directory or -c", file=sys.stderr)
        return 2
    if not found:
        print(f"nothing is recorded of {name} {_when(asked, at)}", file=sys.stderr)
        return 1
    return _print(found, asked, source)


def _when(asked: Asked, at: float) -> str:
    if asked.last_change:
        return "that changed its count"
    return f"since {asked.since}" if asked.since else f"at {times.local(at)} or before"


def _found(
    source: Source, key: str, asked: Asked, at: float, since: float | None
) -> Iterator[Explanation]:
    """Yield the explanations that are asked for, in order."""
    instants: Sequence[float] = [at]
    if asked.last_change:
        last = source.last_change(key, at)
        instants = [] if last is None else [last]
    elif since is not None:
        changes = source.changes([key], since, at + _AFTER, _MOST_EXPLAINED)
        instants = [one.time for one in reversed(changes)]
        if not changes or changes[-1].time > since:
            instants = [since, *instants]
    for instant in instants:
        one = source.explanation(key, instant)
        if one is not None:
            yield one


def _print(found: Sequence[Explanation], asked: Asked, source: Source) -> int:
    again = [_recomputed(one, source) if asked.recompute else None for one in found]
    if asked.as_json:
        shown = [
            explanation_json(one) | ({} if same is None else {"recomputed": same[0]})
            for one, same in zip(found, again, strict=True)
        ]
        print(json.dumps(shown, indent=2))
    else:
        now = clock.wall()
        print(f"from {source.name}; times are in {times.zone(now)}", file=sys.stderr)
        texts = [_text(one, same, now) for one, same in zip(found, again, strict=True)]
        print_text("\n\n".join(texts), EXPLAINED_FROM)
    return 1 if any(same is not None and not same[0] for same in again) else 0


def _text(one: Explanation, again: tuple[bool, str] | None, now: float) -> str:
    """Return its text; the first line has the date if it is not today's, the others any other."""
    first, *rest = [*_lines(one), *([] if again is None else labelled("recomputed", [again[1]]))]
    others = (times.localized(line, one.time) for line in rest)
    return "\n".join((times.localized(first, one.time, now), *others))


def _lines(one: Explanation) -> Iterator[str]:
    """Yield the lines of an explanation."""
    yield from one.lines
    yield from labelled("held", [f"decided at {rfc3339_milli(one.time)}, and {one.held}"])
    for label, texts in (
        ("values", one.values),
        ("changed", one.differences),
        ("otherwise", one.alternatives),
        ("others", one.others),
    ):
        yield from labelled(label, texts)


def _recomputed(one: Explanation, source: Source) -> tuple[bool, str]:
    """Decide again from what is recorded; return whether it is the same, and a sentence."""
    assert isinstance(source, DirectorySource)  # noqa: S101 - as checked before
    change = source.record.change_at(one.target, one.time)
    try:
        if change is None:
            return False, "the decision is not recorded any more"
        entry = source.record.entry(change)
    except RecordError as error:
        return False, str(error)
    decision = recompute(entry)
    if is_same(decision, entry.decision):
        return True, "decided again from what was read then: the same result"
    return False, (
        "decided again from what was read then: another result, "
        f"{decision.desired} replicas instead of {entry.decision.desired}; was it decided by "
        "another version?"
    )
