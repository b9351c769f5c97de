"""`autoscaler agreement`: how targets in shadow agree with their HPAs, and what differs."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence

from autoscaler import clock
from autoscaler.agreement.sentences import AGREEMENT_WORDS, READY, field_text, moved, percent
from autoscaler.cli import times
from autoscaler.cli.options import SourceOptions
from autoscaler.cli.output import exit_code, wrapped
from autoscaler.cli.sources import chosen_from, live_of
from autoscaler.core.text import duration, printable
from autoscaler.persistence.record.agreement import Agreement
from autoscaler.rendering import wording
from autoscaler.rendering.answers import AgreementList, AgreementTime, Disagreement, TargetAgreement

_MOST_OF_ONE, _MOST_OF_MANY = 20, 2
"""So many disagreements of a target are printed."""
_INDENT = "  "


@exit_code
def print_agreement(
    names: Sequence[str], place: SourceOptions, *, since: str, as_json: bool
) -> int:
    """Print how the named targets agree, or all that are in shadow; return the exit code.

    That is 0 where each is ready to go over, else 1.
    """
    now = clock.wall()
    begin = times.instant(since, now)
    source, (listed, _), note = live_of(place)
    known = [target.target for target in listed.targets]
    keys = chosen_from(source, names, known) if names else ()
    found = source.agreement(sorted(keys), begin)
    if note:
        print(note, file=sys.stderr)
    if as_json:
        print(json.dumps(found.document(), indent=2))
    elif not found.targets:
        print("no target is in shadow: none is controlled by an HPA, or has `mode: shadow`")
    else:
        for line in _lines(found, shutil.get_terminal_size().columns):
            print(line)
    ready = all(one.verdict == READY for one in found.targets)
    return 0 if found.targets and ready else 1


def _lines(found: AgreementList, width: int) -> Iterator[str]:
    alone = len(found.targets) == 1
    by_need = sorted(found.targets, key=lambda one: (one.agreement is not None, one.agreement or 0))
    for one in by_need:
        yield from wrapped(f"{printable(one.target)}: {one.message}", width, "")
        yield from _details(one, width, _MOST_OF_ONE if alone else _MOST_OF_MANY)
    yield moved(found.live, found.shadow)


def _details(one: TargetAgreement, width: int, most: int) -> Iterator[str]:
    label = max((len(_word(time.kind)) for time in one.times), default=0)
    for time in one.times:
        yield f"{_INDENT}{_word(time.kind).ljust(label)} {_time_text(time)}"
    for reason in one.not_compared:
        said = f"not compared for {duration(reason.seconds)}: {reason.reason}"
        yield from wrapped(said, width, _INDENT)
    for field in one.differences:
        yield from wrapped(f"differs: {field_text(field)}", width, _INDENT)
    shown = one.disagreements[:most]
    for each in sorted(shown, key=lambda stretch: stretch.begin):
        yield from wrapped(_disagreement_text(each), width, _INDENT)
    left = len(one.disagreements) - len(shown)
    if left:
        yield f"{_INDENT}and {left} shorter ones: -o json has them"


def _word(kind: str) -> str:
    return AGREEMENT_WORDS[Agreement(kind)] if kind in set(Agreement) else kind


def _time_text(time: AgreementTime) -> str:
    stretches = wording.counted(time.stretches, "time")
    longest = f", {stretches}, at most {duration(time.longest_seconds)}"
    of = "" if time.kind == Agreement.EQUAL else longest
    return f"{percent(time.share).rjust(7)}  {duration(time.seconds)}{of}"


def _disagreement_text(one: Disagreement) -> str:
    lasted = duration(one.end - one.begin)
    begin = times.local(one.begin)
    return f"{begin}, for {lasted}: {one.ours} here, {one.theirs} there: {one.message}"
