"""`autoscaler compare`: one time under several configurations, side by side."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pydantic.alias_generators import to_camel

from autoscaler.cli.output import ArgumentError, CommandError, print_text
from autoscaler.config import load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.text import duration, rfc3339
from autoscaler.lab.engine.comparison import (
    LEAST_DAYS,
    MeasureComparison,
    Side,
    compared_days,
    total,
)
from autoscaler.lab.engine.measures import Measures
from autoscaler.lab.engine.outcome import TargetOutcome
from autoscaler.lab.engine.rehearse import Rehearsal, RehearsalPlan, rehearse
from autoscaler.lab.options import RehearsalOptions, ReportOptions
from autoscaler.lab.rehearsing import plan_of, progress_bar
from autoscaler.lab.rendering import (
    MEASURES,
    MeasureText,
    answer_of,
    day_counts_document,
    measure_text,
)
from autoscaler.lab.report_page import ComparisonTable, refuse_to_overwrite, write_report

_GAP = "  "
_ALL = "all targets"


def compare(
    files: Sequence[Path], options: RehearsalOptions, report: ReportOptions, *, as_json: bool
) -> int:
    """Rehearse one time under each of several configurations, and print how they compare.

    The demand is counted in pods of the first one.
    """
    if len(files) < 2:
        raise ArgumentError("name two configurations or more, each with -c")
    refuse_to_overwrite(report)
    configs = [load(file, namespace_or_anywhere) for file in files]
    done: list[Rehearsal] = []
    with ExitStack() as stack:
        plans = [plan_of(configs[0], options, stack)]
        span = plans[0].begin, plans[0].end
        plans += [plan_of(config, options, stack, span) for config in configs[1:]]
        yardstick = plans[0].yardstick()
        common = set.intersection(*({one.key for one in plan.targets} for plan in plans))
        if not common:
            raise CommandError("the configurations have no target in common")
        for file, plan in zip(files, plans, strict=True):
            shared = [target for target in plan.targets if target.key in common]
            measured = replace(plan, targets=shared, per_pod=yardstick)
            with progress_bar(plan.begin, plan.end, str(file)) as tell:
                done.append(rehearse(measured, options.processes, tell))
            if done[-1].end < plan.end:
                raise CommandError("interrupted: what was not rehearsed to its end is not compared")
    if report.report is not None:
        answers = {str(file): answer_of(one) for file, one in zip(files, done, strict=True)}
        write_report(answers, "Configurations compared", report, _tables(files, done))
    if as_json:
        print(json.dumps(_document(files, plans, done), indent=2))
    else:
        print_text("\n".join(_lines(files, plans, done)))
    return 1 if any(one.refused for one in done) else 0


def _lines(
    files: Sequence[Path], plans: Sequence[RehearsalPlan], done: Sequence[Rehearsal]
) -> Iterator[str]:
    begin, end = done[0].begin, done[0].end
    yield f"{rfc3339(begin)} to {rfc3339(end)}, {duration(end - begin)}"
    yield (
        f"the demand is counted in pods of {files[0]}: what its targets ask of a pod, or the "
        "capacity that is assumed"
    )
    for key, having in _not_in_all(files, plans).items():
        yield f"not compared: {key} is only in {' and '.join(map(str, having))}"
    for file, one in zip(files, done, strict=True):
        yield from (f"not rehearsed: {file}: {sentence}" for sentence in one.refused)
    for file, groups in _pairs(files, done):
        yield ""
        yield f"{files[0]} -> {file}"
        for name, compared in groups.items():
            yield f"{_GAP}{name}"
            yield from _table(compared)


def _not_in_all(files: Sequence[Path], plans: Sequence[RehearsalPlan]) -> dict[str, list[Path]]:
    """Return the targets that only some configurations have, and which have them."""
    having: dict[str, list[Path]] = {}
    for file, plan in zip(files, plans, strict=True):
        for target in plan.targets:
            having.setdefault(target.key, []).append(file)
    return {key: some for key, some in having.items() if len(some) < len(files)}


def _pairs(
    files: Sequence[Path], done: Sequence[Rehearsal]
) -> Iterator[tuple[Path, dict[str, tuple[MeasureComparison, ...]]]]:
    """Yield each other file with how it compares with the first: all targets, then each."""
    first = {one.key: one for one in done[0].outcomes}
    for file, other in zip(files[1:], done[1:], strict=True):
        second = {one.key: one for one in other.outcomes}
        keys = [key for key in first if key in second]
        groups = {key: _compared([first[key]], [second[key]]) for key in keys}
        if len(keys) > 1:
            every = _compared([first[key] for key in keys], [second[key] for key in keys])
            groups = {_ALL: every, **groups}
        yield file, groups


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


def _tables(files: Sequence[Path], done: Sequence[Rehearsal]) -> dict[str, list[ComparisonTable]]:
    """Return what the report shows of each target, and by an empty key of all of them."""
    tables: dict[str, list[ComparisonTable]] = defaultdict(list)
    for file, groups in _pairs(files, done):
        for name, compared in groups.items():
            chances = [one.by_days.chance for one in compared]
            rows = [
                (*row, "" if chance is None else f"{chance:.2%}")
                for row, chance in zip(_rows(compared), chances, strict=True)
            ]
            title = f"{files[0]} -> {file}"
            key, title = ("", f"{title}, {_ALL}") if name == _ALL else (name, title)
            tables[key].append(ComparisonTable(title, rows))
    return tables


def _rows(compared: Sequence[MeasureComparison]) -> list[tuple[str, ...]]:
    """Return of each measure its heading, both values, their difference, the verdict, the days."""
    headings = {one.field: one for one in MEASURES}
    return [
        (
            measure.heading,
            measure_text(measure, one.first),
            measure_text(measure, one.second),
            _difference(measure, one),
            *_verdict(one),
        )
        for one in compared
        for measure in (headings[one.field],)
    ]


def _table(compared: Sequence[MeasureComparison]) -> Iterator[str]:
    """Yield a line for each measure."""
    rows = _rows(compared)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for heading, first, second, difference, verdict, surety in rows:
        numbers = f"{first.rjust(widths[1])} -> {second.rjust(widths[2])}"
        line = f"{2 * _GAP}{heading.ljust(widths[0])}{_GAP}{numbers}{_GAP}"
        line += f"{difference.rjust(widths[3])}{_GAP}{verdict.ljust(widths[4])}{_GAP}{surety}"
        yield line.rstrip()


def _difference(measure: MeasureText, one: MeasureComparison) -> str:
    if one.first is None or one.second is None:
        return "-"
    difference = one.second - one.first
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    return f"{sign}{measure_text(measure, abs(difference))}"


def _verdict(one: MeasureComparison) -> tuple[str, str]:
    """Say which is better, on how many days it was so, and whether that may be chance."""
    days, verdict = one.by_days, one.verdict
    if verdict in {Side.EQUAL, Side.UNKNOWN}:
        return "", ""
    if days.days < LEAST_DAYS:
        whole = "one day" if days.days == 1 else f"{days.days} days"
        return verdict.value, f"{whole}: not sure"
    same = days.better if verdict is Side.BETTER else days.worse
    told = f"on {same} of {days.days} days"
    if days.chance is None:
        return verdict.value, f"{told}; too few differ to be sure"
    return verdict.value, told if days.sure else f"{told}, which may be chance"


def _document(
    files: Sequence[Path], plans: Sequence[RehearsalPlan], done: Sequence[Rehearsal]
) -> dict[str, object]:
    comparisons = []
    for file, groups in _pairs(files, done):
        told = {name: list(map(_measure, compared)) for name, compared in groups.items()}
        every = told.pop(_ALL, None)
        pair: dict[str, object] = {"first": str(files[0]), "second": str(file), "targets": told}
        comparisons.append(pair if every is None else {**pair, "allTargets": every})
    return {
        "comparisons": comparisons,
        "notInAll": {
            key: list(map(str, having)) for key, having in _not_in_all(files, plans).items()
        },
        "rehearsals": {
            str(file): answer_of(one).document() for file, one in zip(files, done, strict=True)
        },
    }


def _measure(one: MeasureComparison) -> dict[str, object]:
    return {
        "measure": to_camel(one.field),
        "first": one.first,
        "second": one.second,
        "verdict": one.verdict.value,
        **day_counts_document(one.by_days),
    }
