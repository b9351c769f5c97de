"""`autoscaler replay`: what configurations would have done in a past period.

With several configurations, each is compared with the first, side by side.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pydantic.alias_generators import to_camel

from autoscaler.cli.object_files import load_with_objects
from autoscaler.cli.output import CommandError, aligned, print_text
from autoscaler.core.text import duration, rfc3339
from autoscaler.lab.engine.measures import (
    LEAST_DAYS,
    MeasureComparison,
    Measures,
    Side,
    compared_days,
    total,
)
from autoscaler.lab.engine.outcome import Explain, TargetOutcome
from autoscaler.lab.engine.replay import Replay, ReplayPlan, own_reason, run_replay
from autoscaler.lab.options import ReplayOptions, ReportOptions
from autoscaler.lab.rendering import (
    MEASURES,
    MeasureText,
    ReplayAnswer,
    ReplayedTarget,
    answer_of,
    day_counts_document,
    measure_text,
    told_measures,
)
from autoscaler.lab.replay_plan import plan_of, progress_bar
from autoscaler.lab.report_page import ComparisonTable, refuse_to_overwrite, write_report
from autoscaler.rendering.reasons import verdict
from autoscaler.rendering.wording import counted

_EXPLAINED_TARGETS = 20
"""With more targets a change has the HPA's own reason, which is cheap."""
_IN_FULL = 5
"""The most targets with all measures; more targets have one line each."""
_GAP = "  "
_ALL = "all targets"


def replay(
    files: Sequence[Path],
    names: Sequence[str],
    options: ReplayOptions,
    report: ReportOptions,
    *,
    as_json: bool,
) -> int:
    """Replay targets of configurations and print the result; return the exit code.

    It is 1 if some targets could not be replayed, or after an interrupt.
    """
    refuse_to_overwrite(report)
    configs = [load_with_objects(file, options.objects) for file in files]
    done: list[Replay] = []
    with ExitStack() as stack:
        plans = [plan_of(configs[0], names, options, stack)]
        span = plans[0].begin, plans[0].end
        plans += [plan_of(config, names, options, stack, span) for config in configs[1:]]
        for file, plan in zip(files, _comparable(plans), strict=True):
            few = len(plan.targets) <= _EXPLAINED_TARGETS
            explain: Explain = (lambda step: verdict(step.result)) if few else own_reason
            with progress_bar(plan.begin, plan.end, str(file)) as tell:
                done.append(run_replay(plan, options.processes, tell, explain))
            if done[-1].end < plan.end:
                break
    cut_short = done[-1].end < span[1]
    if len(files) == 1:
        _tell_one(answer_of(done[0]), f"Replay of {files[0].name}", report, as_json=as_json)
    elif cut_short:
        raise CommandError("interrupted: incomplete replays are not compared")
    else:
        _ComparedFiles(files, plans, done).tell(report, as_json=as_json)
    if cut_short:
        print(f"interrupted: replayed up to {rfc3339(done[0].end)}", file=sys.stderr)
    return 1 if cut_short or any(result.refused for result in done) else 0


def _comparable(plans: Sequence[ReplayPlan]) -> Sequence[ReplayPlan]:
    """Return several plans with their common targets, and the demand in pods of the first."""
    if len(plans) == 1:
        return plans
    common = set.intersection(*({target.key for target in plan.targets} for plan in plans))
    if not common:
        raise CommandError("the configurations have no target in common")
    yardstick = plans[0].yardstick()
    return [
        replace(
            plan,
            targets=[target for target in plan.targets if target.key in common],
            per_pod=yardstick,
        )
        for plan in plans
    ]


# -- one ------------------------------------------------------------------------------------------


def _tell_one(answer: ReplayAnswer, title: str, report: ReportOptions, *, as_json: bool) -> None:
    write_report({"simulated": answer}, title, report)
    if not as_json:
        print_text("\n".join(lines_of(answer)))
        return
    sys.stdout.write(answer.encoded().decode() + "\n")
    for target in answer.targets:
        if target.unlisted_changes:
            listed = f"{len(target.changes):,} of {target.measures.changes:,} changes"
            print(f"{target.target}: the first {listed} are listed", file=sys.stderr)


def lines_of(answer: ReplayAnswer) -> Iterator[str]:
    """Yield a replay as text."""
    lasts = duration(answer.end - answer.begin)
    yield f"{rfc3339(answer.begin)} to {rfc3339(answer.end)}, {lasts}"
    for sentence in answer.refused:
        yield f"not replayed: {sentence}"
    if len(answer.targets) > _IN_FULL:
        yield ""
        yield from _targets_table(answer.targets)
        return
    for target in answer.targets:
        yield ""
        yield from target_lines(target)


def target_lines(target: ReplayedTarget) -> Iterator[str]:
    """Yield the result of one target, next to the actual one."""
    yield f"{target.target}: {target.first_replicas} -> {counted(target.last_replicas, 'replica')}"
    for name, model in target.models.items():
        yield f"{_GAP}load        {name} is {model}"
    for sentence in target.assumed:
        yield f"{_GAP}assumed     {sentence}"
    yield from (f"{_GAP}gaps        {sentence}" for sentence in _gaps(target))
    rows = [("", "simulated", *(["actual"] if target.ran else []), "")]
    measured = [of for of in (target.measures, target.ran) if of is not None]
    for measure in told_measures(measured):
        found = [measure_text(measure, getattr(of, measure.field)) for of in measured]
        rows.append((measure.heading, *found, measure.meaning))
    yield from (f"{_GAP}{line}".rstrip() for line in aligned(rows, left={0, len(rows[0]) - 1}))


def _gaps(target: ReplayedTarget) -> Iterator[str]:
    if target.measures.gap_seconds:
        yield f"the demand is not known for {duration(target.measures.gap_seconds)}: not scored"
    if target.failed_seconds:
        yield f"a metric had no value for {duration(target.failed_seconds)}"
    if target.censored_seconds:
        lasts = duration(target.censored_seconds)
        yield f"the recorded pods were at their capacity for {lasts}: there may have been more work"


def _targets_table(targets: Sequence[ReplayedTarget]) -> Iterator[str]:
    """Yield a line for each target."""
    chosen = ("tau_under", "theta_under", "theta_over", "replica_hours", "changes")
    measures = [measure for measure in MEASURES if measure.field in chosen]
    (of_hours,) = (measure for measure in measures if measure.field == "replica_hours")
    rows = [("TARGET", *(measure.heading.upper() for measure in measures), "ACTUAL")]
    for target in targets:
        hours = measure_text(of_hours, None if target.ran is None else target.ran.replica_hours)
        cells = (
            measure_text(measure, getattr(target.measures, measure.field)) for measure in measures
        )
        rows.append((target.target, *cells, hours))
    yield from aligned(rows)


# -- several ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ComparedFiles:
    """The replays of several files over one period; each is compared with the first."""

    files: Sequence[Path]
    plans: Sequence[ReplayPlan]
    done: Sequence[Replay]

    def tell(self, report: ReportOptions, *, as_json: bool) -> None:
        """Write the report, and print the comparison."""
        if report.report is not None:
            write_report(self._answers, "Configurations compared", report, self._tables())
        if as_json:
            print(json.dumps(self._document(), indent=2))
        else:
            print_text("\n".join(self._lines()))

    @cached_property
    def _answers(self) -> Mapping[str, ReplayAnswer]:
        return {
            str(file): answer_of(path) for file, path in zip(self.files, self.done, strict=True)
        }

    def _lines(self) -> Iterator[str]:
        files, begin, end = self.files, self.done[0].begin, self.done[0].end
        yield f"{rfc3339(begin)} to {rfc3339(end)}, {duration(end - begin)}"
        yield (
            f"the demand is counted in pods of {files[0]}: what its targets ask of a pod, or the "
            "capacity that is assumed"
        )
        for key, having in self._not_in_all().items():
            yield f"not compared: {key} is only in {' and '.join(having)}"
        for file, path in zip(files, self.done, strict=True):
            yield from (f"not replayed: {file}: {sentence}" for sentence in path.refused)
        for file, groups in self._pairs():
            yield ""
            yield f"{files[0]} -> {file}"
            for name, compared in groups.items():
                yield f"{_GAP}{name}"
                yield from _table(compared)

    def _not_in_all(self) -> dict[str, list[str]]:
        """Return the targets that only some configurations have, and which have them."""
        having: dict[str, list[str]] = {}
        for file, plan in zip(self.files, self.plans, strict=True):
            for target in plan.targets:
                having.setdefault(target.key, []).append(str(file))
        return {key: some for key, some in having.items() if len(some) < len(self.files)}

    def _pairs(self) -> Iterator[tuple[Path, dict[str, tuple[MeasureComparison, ...]]]]:
        """Yield each other file with its comparison with the first: all targets, then each."""
        first = {outcome.key: outcome for outcome in self.done[0].outcomes}
        for file, other in zip(self.files[1:], self.done[1:], strict=True):
            second = {outcome.key: outcome for outcome in other.outcomes}
            keys = [key for key in first if key in second]
            groups = {key: _compared([first[key]], [second[key]]) for key in keys}
            if len(keys) > 1:
                every = _compared([first[key] for key in keys], [second[key] for key in keys])
                groups = {_ALL: every, **groups}
            yield file, groups

    def _tables(self) -> dict[str, list[ComparisonTable]]:
        """Return the table of each target for the report, and by an empty key of all of them."""
        tables: dict[str, list[ComparisonTable]] = defaultdict(list)
        for file, groups in self._pairs():
            for name, compared in groups.items():
                chances = [comparison.by_days.chance for comparison in compared]
                rows = [
                    (*row, "" if chance is None else f"{chance:.2%}")
                    for row, chance in zip(_rows(compared), chances, strict=True)
                ]
                title = f"{self.files[0]} -> {file}"
                key, title = ("", f"{title}, {_ALL}") if name == _ALL else (name, title)
                tables[key].append(ComparisonTable(title, rows))
        return tables

    def _document(self) -> dict[str, object]:
        comparisons = []
        for file, groups in self._pairs():
            told = {name: list(map(_measure, compared)) for name, compared in groups.items()}
            every = told.pop(_ALL, None)
            pair: dict[str, object] = {"first": str(self.files[0]), "second": str(file)}
            pair["targets"] = told
            comparisons.append(pair if every is None else {**pair, "allTargets": every})
        return {
            "comparisons": comparisons,
            "notInAll": self._not_in_all(),
            "replays": {file: answer.document() for file, answer in self._answers.items()},
        }


def _compared(
    ones: Sequence[TargetOutcome], others: Sequence[TargetOutcome]
) -> tuple[MeasureComparison, ...]:
    def days(of: Sequence[TargetOutcome]) -> list[Measures]:
        return [total(day) for day in zip(*(outcome.days for outcome in of), strict=False)]

    return compared_days(
        total(outcome.measures for outcome in ones),
        total(other.measures for other in others),
        days(ones),
        days(others),
    )


def _rows(compared: Sequence[MeasureComparison]) -> list[tuple[str, ...]]:
    """Return for each measure its heading, both values, their difference, the verdict, the days."""
    headings = {measure.field: measure for measure in MEASURES}
    return [
        (
            measure.heading,
            measure_text(measure, comparison.first),
            measure_text(measure, comparison.second),
            _difference(measure, comparison),
            *_verdict(comparison),
        )
        for comparison in compared
        for measure in (headings[comparison.field],)
    ]


def _table(compared: Sequence[MeasureComparison]) -> Iterator[str]:
    """Yield a line for each measure."""
    rows = _rows(compared)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for heading, first, second, difference, better, surety in rows:
        numbers = f"{first.rjust(widths[1])} -> {second.rjust(widths[2])}"
        line = f"{2 * _GAP}{heading.ljust(widths[0])}{_GAP}{numbers}{_GAP}"
        line += f"{difference.rjust(widths[3])}{_GAP}{better.ljust(widths[4])}{_GAP}{surety}"
        yield line.rstrip()


def _difference(measure: MeasureText, comparison: MeasureComparison) -> str:
    if comparison.first is None or comparison.second is None:
        return "-"
    difference = comparison.second - comparison.first
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    return f"{sign}{measure_text(measure, abs(difference))}"


def _verdict(comparison: MeasureComparison) -> tuple[str, str]:
    """Return which is better, on how many days, and whether that may be chance."""
    days, side = comparison.by_days, comparison.verdict
    if side in {Side.EQUAL, Side.UNKNOWN}:
        return "", ""
    if days.days < LEAST_DAYS:
        whole = "one day" if days.days == 1 else f"{days.days} days"
        return side.value, f"{whole}: not sure"
    same = days.better if side is Side.BETTER else days.worse
    told = f"on {same} of {days.days} days"
    if days.chance is None:
        return side.value, f"{told}; too few differ to be sure"
    return side.value, told if days.sure else f"{told}, which may be chance"


def _measure(comparison: MeasureComparison) -> dict[str, object]:
    return {
        "measure": to_camel(comparison.field),
        "first": comparison.first,
        "second": comparison.second,
        "verdict": comparison.verdict.value,
        **day_counts_document(comparison.by_days),
    }
