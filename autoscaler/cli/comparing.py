"""`autoscaler compare`: one time under several configurations, side by side."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from autoscaler.cli.output import CommandError, exit_code, print_text
from autoscaler.cli.rehearsing import (
    RehearsalOptions,
    RehearsalPlan,
    plan_of,
    progress_bar,
    rehearsed,
)
from autoscaler.cli.reporting import ReportOptions, refuse_to_overwrite, write_report
from autoscaler.config import load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.text import duration, rfc3339
from autoscaler.rehearsal.comparison import (
    LEAST_DAYS,
    MeasureComparison,
    Side,
    compared_days,
    total,
)
from autoscaler.rehearsal.measures import Measures
from autoscaler.rehearsal.outcome import TargetOutcome
from autoscaler.rehearsal.rehearse import Rehearsal
from autoscaler.rendering.rehearsal import MEASURES, answer_of, measure_text

_GAP = "  "
_ALL = "all targets"


@exit_code
def compare(
    files: Sequence[Path],
    options: RehearsalOptions,
    report: ReportOptions | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Rehearse one time under each of several configurations, and print how they compare.

    The demand is counted in pods of the first one.
    """
    if len(files) < 2:
        raise CommandError("name two configurations or more, each with -c")
    if report is not None:
        refuse_to_overwrite(report)
    configs = [load(file, namespace_or_anywhere) for file in files]
    done: list[Rehearsal] = []
    with ExitStack() as stack:
        plans = [plan_of(config, options, stack) for config in configs]
        yardstick = plans[0].yardstick()
        common = set.intersection(*({one.key for one in plan.targets} for plan in plans))
        if not common:
            raise CommandError("the configurations have no target in common")
        for file, plan in zip(files, plans, strict=True):
            shared = [target for target in plan.targets if target.key in common]
            measured = replace(plan, targets=shared, per_pod=yardstick)
            with progress_bar(plan.begin, plan.end, str(file)) as tell:
                done.append(rehearsed(measured, options.processes, tell))
    if report is not None:
        answers = {str(file): answer_of(one) for file, one in zip(files, done, strict=True)}
        write_report(answers, "Configurations compared", report)
    if as_json:
        print(json.dumps(_document(files, done), indent=2))
    else:
        print_text("\n".join(_lines(files, plans, done, common)))
    return 1 if any(one.refused for one in done) else 0


def _lines(
    files: Sequence[Path],
    plans: Sequence[RehearsalPlan],
    done: Sequence[Rehearsal],
    common: set[str],
) -> Iterator[str]:
    begin, end = done[0].begin, min(one.end for one in done)
    yield f"{rfc3339(begin)} to {rfc3339(end)}, {duration(end - begin)}"
    yield f"the demand is counted in pods of {files[0]}"
    for file, plan in zip(files, plans, strict=True):
        for target in plan.targets:
            if target.key not in common:
                yield f"not compared: {target.key} is not in all of them; {file} has it"
    for one in done:
        yield from (f"not rehearsed: {sentence}" for sentence in one.refused)
    first = _by_key(done[0])
    for file, other in zip(files[1:], done[1:], strict=True):
        second = _by_key(other)
        keys = [key for key in first if key in second]
        yield ""
        yield f"{files[0]} -> {file}"
        groups = {key: ([first[key]], [second[key]]) for key in keys}
        if len(keys) > 1:
            groups = {_ALL: ([first[key] for key in keys], [second[key] for key in keys]), **groups}
        for name, (ones, others) in groups.items():
            yield f"{_GAP}{name}"
            yield from _table(_compared(ones, others))


def _by_key(rehearsal: Rehearsal) -> Mapping[str, TargetOutcome]:
    return {one.key: one for one in rehearsal.outcomes}


def _compared(
    ones: Sequence[TargetOutcome], others: Sequence[TargetOutcome]
) -> tuple[MeasureComparison, ...]:
    def days(of: Sequence[TargetOutcome]) -> list[Measures]:
        return [total(day) for day in zip(*(one.days for one in of), strict=False)]

    return compared_days(
        total(one.measures for one in ones),
        total(one.measures for one in others),
        days(ones),
        days(others),
    )


def _table(compared: Sequence[MeasureComparison]) -> Iterator[str]:
    """Yield a line for each measure."""
    headings = {one.field: one for one in MEASURES}
    rows = [
        (
            headings[one.field].heading,
            measure_text(headings[one.field], one.first),
            measure_text(headings[one.field], one.second),
            one.verdict.value if one.verdict is not Side.EQUAL else "",
            _surety(one),
        )
        for one in compared
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for heading, first, second, verdict, surety in rows:
        numbers = f"{first.rjust(widths[1])} -> {second.rjust(widths[2])}"
        line = f"{2 * _GAP}{heading.ljust(widths[0])}{_GAP}{numbers}"
        yield f"{line}{_GAP}{verdict.ljust(widths[3])}{_GAP}{surety}".rstrip()


def _surety(one: MeasureComparison) -> str:
    """Say on how many days it was so, and whether that may be chance."""
    if one.verdict is Side.EQUAL:
        return ""
    if one.days < LEAST_DAYS:
        return f"of {one.days} whole days: too few to be sure"
    same = one.better_days if one.verdict is Side.BETTER else one.worse_days
    told = f"on {same} of {one.days} days"
    if one.chance is None:
        return f"{told}; too few differ to be sure"
    return told if one.sure else f"{told}, which may be chance"


def _document(files: Sequence[Path], done: Sequence[Rehearsal]) -> dict[str, object]:
    first = _by_key(done[0])
    comparisons = []
    for file, other in zip(files[1:], done[1:], strict=True):
        second = _by_key(other)
        targets = {
            key: [
                {**asdict(each), "verdict": each.verdict.value, "sure": each.sure}
                for each in _compared([first[key]], [second[key]])
            ]
            for key in first
            if key in second
        }
        comparisons.append({"first": str(files[0]), "second": str(file), "targets": targets})
    rehearsals = {
        str(file): answer_of(one).document() for file, one in zip(files, done, strict=True)
    }
    return {"comparisons": comparisons, "rehearsals": rehearsals}
