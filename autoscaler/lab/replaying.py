"""`autoscaler replay`: what a configuration would have done in a time that has passed."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from autoscaler.cli.output import aligned, print_text
from autoscaler.config import load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.text import duration, rfc3339
from autoscaler.lab.engine.outcome import Explain
from autoscaler.lab.engine.rehearse import own_reason, rehearse
from autoscaler.lab.options import RehearsalOptions, ReportOptions
from autoscaler.lab.rehearsing import plan_of, progress_bar
from autoscaler.lab.rendering import (
    MEASURES,
    RehearsalAnswer,
    RehearsedTarget,
    answer_of,
    measure_text,
    told_measures,
)
from autoscaler.lab.report_page import refuse_to_overwrite, write_report
from autoscaler.rendering.reasons import verdict
from autoscaler.rendering.wording import counted

_EXPLAINED_TARGETS = 20
"""With more targets a change has the HPA's own reason, which costs nothing."""
_IN_FULL = 5
"""So many targets are told with all their measures; of more each has a line."""
_GAP = "  "


def replay(file: Path, options: RehearsalOptions, report: ReportOptions, *, as_json: bool) -> int:
    """Replay the targets of a configuration, and print what came of it; return the exit code.

    The code is 1 if some could not be rehearsed, or an interrupt has ended it before its end.
    """
    config = load(file, namespace_or_anywhere)
    refuse_to_overwrite(report)
    with ExitStack() as stack:
        plan = plan_of(config, options, stack)
        few = len(plan.targets) <= _EXPLAINED_TARGETS
        explain: Explain = (lambda step: verdict(step.result)) if few else own_reason
        tell = stack.enter_context(progress_bar(plan.begin, plan.end, "replay"))
        done = rehearse(plan, options.processes, tell, explain)
    answer = answer_of(done)
    write_report({"rehearsed": answer}, f"Replay of {file.name}", report)
    if as_json:
        sys.stdout.write(answer.encoded().decode() + "\n")
        for one in answer.targets:
            if one.unlisted_changes:
                listed = f"{len(one.changes):,} of {one.measures.changes:,} changes"
                print(f"{one.target}: the first {listed} are listed", file=sys.stderr)
    else:
        print_text("\n".join(lines_of(answer)))
    cut_short = done.end < plan.end
    if cut_short:
        print(f"interrupted: rehearsed as far as {rfc3339(done.end)}", file=sys.stderr)
    return 1 if done.refused or cut_short else 0


def lines_of(answer: RehearsalAnswer) -> Iterator[str]:
    """Yield a rehearsal as text."""
    lasts = duration(answer.end - answer.begin)
    yield f"{rfc3339(answer.begin)} to {rfc3339(answer.end)}, {lasts}"
    for sentence in answer.refused:
        yield f"not rehearsed: {sentence}"
    if len(answer.targets) > _IN_FULL:
        yield ""
        yield from _table(answer.targets)
        return
    for target in answer.targets:
        yield ""
        yield from target_lines(target)


def target_lines(one: RehearsedTarget) -> Iterator[str]:
    """Yield what came of one target, beside what really ran."""
    yield f"{one.target}: {one.first_replicas} -> {counted(one.last_replicas, 'replica')}"
    for name, model in one.models.items():
        yield f"{_GAP}load        {name} is {model}"
    for sentence in one.assumed:
        yield f"{_GAP}assumed     {sentence}"
    yield from (f"{_GAP}gaps        {sentence}" for sentence in _gaps(one))
    rows = [("", "rehearsed", *(["really ran"] if one.ran else []), "")]
    measured = [of for of in (one.measures, one.ran) if of is not None]
    for measure in told_measures(measured):
        found = [measure_text(measure, getattr(of, measure.field)) for of in measured]
        rows.append((measure.heading, *found, measure.meaning))
    yield from (f"{_GAP}{line}".rstrip() for line in aligned(rows, left={0, len(rows[0]) - 1}))


def _gaps(one: RehearsedTarget) -> Iterator[str]:
    if one.measures.gap_seconds:
        yield f"the demand is not known for {duration(one.measures.gap_seconds)}: not scored"
    if one.failed_seconds:
        yield f"a metric had no value for {duration(one.failed_seconds)}"
    if one.censored_seconds:
        lasts = duration(one.censored_seconds)
        yield f"the recorded pods were at their capacity for {lasts}: there may have been more work"


def _table(targets: Sequence[RehearsedTarget]) -> Iterator[str]:
    """Yield a line for each target."""
    chosen = ("tau_under", "theta_under", "theta_over", "replica_hours", "changes")
    measures = [one for one in MEASURES if one.field in chosen]
    (of_hours,) = (one for one in measures if one.field == "replica_hours")
    rows = [("TARGET", *(one.heading.upper() for one in measures), "RAN")]
    for target in targets:
        hours = measure_text(of_hours, None if target.ran is None else target.ran.replica_hours)
        cells = (measure_text(one, getattr(target.measures, one.field)) for one in measures)
        rows.append((target.target, *cells, hours))
    yield from aligned(rows)
