"""`autoscaler explain` and `autoscaler history`: decisions at any time, and their reasons."""

import json
import sys
from collections.abc import Iterable, Sequence

from autoscaler import clock
from autoscaler.cli import times
from autoscaler.cli.options import ExplanationOptions, SourceOptions
from autoscaler.cli.output import (
    EXPLAINED_FROM,
    ArgumentError,
    CommandError,
    aligned,
    counts,
    print_text,
    who_leads,
)
from autoscaler.cli.sources import (
    DaemonSource,
    DecisionSource,
    DirectorySource,
    chosen_from,
    source_of,
)
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.step import recompute
from autoscaler.core.text import printable, rfc3339_milli
from autoscaler.persistence.codec import is_same
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.answers import Change, Explanation, Lapse
from autoscaler.rendering.explanation import labelled

_MOST_EXPLAINED = 1000
_AFTER = 1e-3
"""In seconds: the end of a time is exclusive, but the requested end is meant to be included."""


def print_explanation(
    name: str, place: SourceOptions, options: ExplanationOptions, *, as_json: bool
) -> int:
    """Print the decision in force for the named target; return the exit code."""
    now = clock.wall()
    source = source_of(place)
    explanations, when = _explanations(name, source, options, now)
    record = source.record if isinstance(source, DirectorySource) else None
    if options.recompute and record is None:
        raise ArgumentError("--recompute reads a state directory: give --state-directory or -c")
    if not explanations:
        raise CommandError(f"nothing is recorded of {name} {when}")
    again = record if options.recompute else None
    told = [
        (explanation, None if again is None else _recomputed(explanation, again))
        for explanation in explanations
    ]
    if as_json:
        documents = [
            explanation.model_copy(update={"recomputed": same and same[0]}).document()
            for explanation, same in told
        ]
        print(json.dumps(documents, indent=2))
    else:
        _tell_where(source, {explanation.target for explanation in explanations}, now)
        print_text(
            "\n\n".join(_text(explanation, same, now) for explanation, same in told), EXPLAINED_FROM
        )
    return 1 if any(same is not None and not same[0] for _, same in told) else 0


def _explanations(
    name: str, source: DecisionSource, options: ExplanationOptions, now: float
) -> tuple[list[Explanation], str]:
    """Return the explanations of the requested instants, and the words for these."""
    at, since = options.at, options.since
    until = now if at is None else times.last_of(times.instant(at, now))
    begin = None if since is None else times.instant(since, now)
    explanations: list[Explanation] = []
    for key in sorted(chosen_from(source, [name], source.targets([name]))):
        last = source.last_change(key, until) if options.last_change else until
        instants = [] if last is None else [last]
        if begin is not None:
            instants = _changes_since(source, key, begin, until)
        found = [source.explanation(key, instant) for instant in instants]
        explanations += [explanation for explanation in found if explanation is not None]
    when = f"since {since}" if since else f"at {times.local(until)} or before"
    return explanations, "that changed its count" if options.last_change else when


def _changes_since(source: DecisionSource, key: str, begin: float, end: float) -> list[float]:
    """Return the instants of the changes in order, starting with the one in force at the begin."""
    changes = source.changes([key], begin, end + _AFTER, _MOST_EXPLAINED).changes
    instants = [change.time for change in reversed(changes)]
    return instants if instants and instants[0] <= begin else [begin, *instants]


def _tell_where(source: DecisionSource, keys: Iterable[str] | None, now: float) -> None:
    """Print the source; a daemon's record has only its own decisions, so name the others."""
    print(f"from {source.name}; times are in {times.zone(now)}", file=sys.stderr)
    if isinstance(source, DaemonSource):
        others = [leader for leader in source.health().leaders or () if not leader.leading]
        for line in who_leads(others, keys):
            print(line, file=sys.stderr)


def _text(explanation: Explanation, again: tuple[bool, str] | None, now: float) -> str:
    """Return the text; the first line has the date if it is not today, others any other date."""
    decided = f"at {rfc3339_milli(explanation.time)}, {explanation.validity}"
    first, *rest = explanation.lines
    rest = ["Decision", *rest, *labelled("decided", [decided])]
    rest += labelled("values", explanation.values)
    for heading, texts in (
        ("Changes since the previous decision", explanation.differences),
        ("What would change this", explanation.alternatives),
        ("Changes by other clients", explanation.others),
        ("Recomputed", () if again is None else (again[1],)),
    ):
        if texts:
            rest += [heading, *(f"  {text}" for text in texts)]
    others = (times.localized(line, explanation.time) for line in rest)
    return "\n".join((times.localized(first, explanation.time, now), *others))


def _recomputed(explanation: Explanation, record: DirectoryRecord) -> tuple[bool, str]:
    change = record.change_at(explanation.target, explanation.time)
    try:
        if change is None:
            return False, "the decision is not recorded any more"
        entry = record.entry(change)
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


# -- history -------------------------------------------------------------------------------------


def print_history(
    names: Sequence[str],
    place: SourceOptions,
    *,
    since: str,
    until: str,
    limit: int,
    as_json: bool,
) -> int:
    """Print at most ``limit`` changes of the named targets, or of all, the oldest first."""
    now = clock.wall()
    begin, end = times.instant(since, now), times.last_of(times.instant(until, now))
    if begin > end:
        raise times.UnknownTimeError(
            f"--since, {times.local(begin)}, is after --until, {times.local(end)}"
        )
    source = source_of(place)
    keys = sorted(chosen_from(source, names, source.targets(names))) if names else None
    listed = source.changes(keys, begin, end + _AFTER, limit + 1)
    shown = list(reversed(listed.changes[:limit]))
    if as_json:
        print(json.dumps([change.document() for change in shown], indent=2))
    else:
        _tell_where(source, keys, now)
        _print_lines(shown, listed.lapses)
    if not shown:
        print(f"no change is recorded since {times.local(begin)}", file=sys.stderr)
    if len(listed.changes) > limit:
        more = f"there are more than the {limit} of --limit; the last ones are shown"
        print(more, file=sys.stderr)
    return 0


def _print_lines(shown: Sequence[Change], lapses: Sequence[Lapse]) -> None:
    timed = [(change.time, _cells(change)) for change in shown]
    for lapse in lapses:
        sentence = f"nothing was recorded until {times.local(lapse.end)}"
        timed.append((lapse.begin, (times.local(lapse.begin), "-", "-", "-", sentence)))
    rows = [row for _, row in sorted(timed, key=lambda row: row[0])]
    columns = range(5)
    lines = aligned(rows, columns) if sys.stdout.isatty() else map("\t".join, rows)
    for line in lines:
        print(line)


def _cells(change: Change) -> tuple[str, ...]:
    replicas = counts(change.current_replicas, change.desired_replicas, "?")
    if change.replicas_before is not None:
        by = printable(change.by or "others")
        moved = "" if change.desired_replicas == change.current_replicas else f", then {replicas}"
        replicas = f"{change.replicas_before} -> {change.current_replicas} by {by}{moved}"
    message = times.localized(printable(change.message, LONGEST_SENTENCE), change.time)
    return (
        times.local(change.time),
        printable(change.target),
        replicas,
        printable(change.state),
        message,
    )
