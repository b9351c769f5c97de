"""`autoscaler tune`: settings of one target that would have been better, and on which days."""

import json
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autoscaler.cli.output import CommandError, exit_code, print_text
from autoscaler.cli.rehearsing import (
    RehearsalOptions,
    RehearsalPlan,
    plan_of,
    progress_bar,
    rehearsed,
)
from autoscaler.cli.reporting import ReportOptions, refuse_to_overwrite, write_report
from autoscaler.config import Config, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.other_files import load_file
from autoscaler.config.written import as_written, changed_parts
from autoscaler.core.target import Target
from autoscaler.core.text import duration, rfc3339
from autoscaler.documents import as_yaml
from autoscaler.rehearsal.comparison import total
from autoscaler.rehearsal.measures import Measures
from autoscaler.rehearsal.outcome import A_DAY, TargetOutcome
from autoscaler.rehearsal.rehearse import Rehearsal
from autoscaler.rehearsal.tuning import (
    Candidate,
    Choice,
    Fold,
    Preference,
    applied_to,
    best,
    front,
    objectives,
    settings_of,
    walked_forward,
)
from autoscaler.rendering.rehearsal import MEASURES, MeasureText, answer_of, measure_text
from autoscaler.settings.tuning import TuningSpace

_FORM = "a space is a mapping such as `targetFactors: [0.8, 1.0]`"
_LEAST_DAYS = 2
_CHOOSING_SHARE = 0.7
"""The part of the days by which candidates are searched and chosen."""
_BATCH = 8
"""So many candidates are rehearsed at a time, whatever the machine: the search stays the same."""
_MOST_SHOWN = 10
_GAP = "  "
_OF_TABLE = ("tau_under", "shortage_pod_hours", "replica_hours", "changes")


@dataclass(frozen=True, slots=True)
class Search:
    """What the command line says of the search."""

    shortage_cost: float
    replica_hour_cost: float
    most_short: float | None
    space: Path | None
    trials: int
    seed: int

    @property
    def preference(self) -> Preference:
        """What is preferred."""
        return Preference(self.shortage_cost, self.replica_hour_cost, self.most_short)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What the search has found; candidates are chosen by the first ``split`` days."""

    target: Target
    space: TuningSpace
    preference: Preference
    days: int
    split: int
    candidates: Sequence[Candidate]
    interrupted: bool = False

    @property
    def today(self) -> Candidate:
        """The configuration as it is."""
        return self.candidates[0]

    @property
    def chosen(self) -> Candidate:
        """What is preferred by the first days."""
        return best(self.candidates, self.preference, slice(0, self.split))

    def folds(self) -> list[Fold]:
        """Return what would have been chosen before each of the later days."""
        return walked_forward(self.candidates, self.today, self.preference, self.split)


@exit_code
def tune(
    name: str,
    file: Path,
    options: RehearsalOptions,
    search: Search,
    report: ReportOptions | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Search for better settings of one target, and print them; return the exit code."""
    optuna = _optuna()
    if report is not None:
        refuse_to_overwrite(report)
    config = load(file, namespace_or_anywhere)
    space = TuningSpace()
    if search.space is not None:
        space = load_file(search.space, TuningSpace, _FORM)
    with ExitStack() as stack:
        plan = _whole_days(plan_of(config, replace(options, targets=[name]), stack))
        if len(plan.targets) != 1:
            raise CommandError(f"{name} means {len(plan.targets)} targets: name one")
        plan = replace(plan, per_pod=plan.yardstick())
        found = _searched(optuna, plan, space, search, options.processes)
        both = {
            "as it is": answer_of(_outcome(plan, plan.targets[0])),
            "tuned": answer_of(
                _outcome(plan, applied_to(found.target, space, found.chosen.choice))
            ),
        }
    if report is not None:
        write_report(both, f"Tuning of {found.target.key}", report)
    if as_json:
        print(json.dumps(_document(found), indent=2))
    else:
        print_text("\n".join(_lines(found, plan, config)))
    return 0


def _optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError(
            "a search needs optuna: install it with pip install 'autoscaler[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _whole_days(plan: RehearsalPlan) -> RehearsalPlan:
    """Return the plan up to the end of its last whole day.  Raises CommandError for too few."""
    days = int((plan.end - plan.begin + 1.0) // A_DAY)
    if days < _LEAST_DAYS:
        lasts = duration(plan.end - plan.begin)
        raise CommandError(
            f"the time of {lasts} has {days} whole days: with fewer than {_LEAST_DAYS} nothing can "
            "be chosen by some days and judged on others"
        )
    return replace(plan, end=plan.begin + days * A_DAY)


def _outcome(plan: RehearsalPlan, target: Target) -> Rehearsal:
    done = rehearsed(replace(plan, targets=[target]), 1)
    if done.refused:
        raise CommandError("\n".join(done.refused))
    return done


# -- the search ------------------------------------------------------------------------------------

_at_hand: tuple[RehearsalPlan, TuningSpace] | None = None
"""What the processes of a search were forked with."""


def _days_of(choice: Choice) -> tuple[Measures, ...]:
    """Rehearse one candidate, in a process of its own."""
    if _at_hand is None:
        raise RuntimeError("a search has not begun")
    plan, space = _at_hand
    outcome: TargetOutcome = _outcome(plan, applied_to(plan.targets[0], space, choice)).outcomes[0]
    return outcome.days


def _searched(
    optuna: Any, plan: RehearsalPlan, space: TuningSpace, search: Search, processes: int
) -> Tuned:
    global _at_hand  # noqa: PLW0603 - what forked processes see
    _at_hand = plan, space
    days = round((plan.end - plan.begin) / A_DAY)
    split = min(days - 1, max(1, round(days * _CHOOSING_SHARE)))
    counts = settings_of(space)
    sampler = optuna.samplers.NSGAIISampler(seed=search.seed, population_size=2 * _BATCH)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    candidates = [Candidate({}, _days_of({}))]
    known: dict[tuple[int, ...], Candidate] = {}
    interrupted = False
    context = multiprocessing.get_context("fork")
    with (
        context.Pool(processes, initializer=_ignore_interrupts) as pool,
        progress_bar(0.0, float(search.trials), "tune") as tell,
        suppress(KeyboardInterrupt),
    ):
        interrupted = True
        for begun in range(0, search.trials, _BATCH):
            trials = [study.ask() for _ in range(min(_BATCH, search.trials - begun))]
            choices = [
                {
                    name: trial.suggest_categorical(name, list(range(count)))
                    for name, count in counts.items()
                }
                for trial in trials
            ]
            new = {tuple(one.values()): one for one in choices}
            new = {key: one for key, one in new.items() if key not in known}
            for (key, choice), measured in zip(
                new.items(), pool.map(_days_of, new.values(), chunksize=1), strict=True
            ):
                known[key] = Candidate(choice, measured)
                candidates.append(known[key])
            for trial, choice in zip(trials, choices, strict=True):
                # The search sees the first days only.
                study.tell(trial, objectives(known[tuple(choice.values())], slice(0, split)))
            tell(float(begun + len(trials)))
        interrupted = False
    target = plan.targets[0]
    return Tuned(target, space, search.preference, days, split, candidates, interrupted)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- what is told ----------------------------------------------------------------------------------


def _lines(found: Tuned, plan: RehearsalPlan, config: Config) -> Iterator[str]:
    first, last = slice(0, found.split), slice(found.split, found.days)
    tried = len(found.candidates) - 1
    yield f"{found.target.key}, {rfc3339(plan.begin)} to {rfc3339(plan.end)}, {found.days} days"
    yield f"{tried} candidates were rehearsed{', then it was interrupted' * found.interrupted}"
    yield (
        f"chosen by the first {found.split} days, judged on the last {found.days - found.split}; "
        f"what is preferred: {_preferred(found.preference)}"
    )
    yield ""
    yield "none is better in both missing pod-hours and replica-hours than one of these; first days"
    yield "-> last days:"
    yield ""
    shown = _spread(front(found.candidates, first))
    shown += [one for one in (found.chosen, found.today) if one not in shown]
    shown.sort(key=lambda one: objectives(one, first)[1])
    yield from _table(found, shown, first, last)
    chosen = found.chosen
    yield ""
    if chosen.is_today:
        yield "by what is preferred nothing is better than the configuration as it is"
        return
    yield from _judgement(found)
    yield ""
    yield f"to paste into the entry of {found.target.key} in {config.path}:"
    yield ""
    yield from pasted(found.target, applied_to(found.target, found.space, chosen.choice))


def _spread(on_front: Sequence[Candidate]) -> list[Candidate]:
    """Return at most so many of a front, at even distances."""
    if len(on_front) <= _MOST_SHOWN:
        return list(on_front)
    step = (len(on_front) - 1) / (_MOST_SHOWN - 1)
    return [on_front[round(number * step)] for number in range(_MOST_SHOWN)]


def _preferred(preference: Preference) -> str:
    if preference.most_short is not None:
        return (
            f"the fewest replica-hours with at most {preference.most_short:.3%} of the time short"
        )
    return (
        f"the least of {preference.shortage_cost:g} for each missing pod-hour and "
        f"{preference.replica_hour_cost:g} for each replica-hour"
    )


def _table(found: Tuned, shown: Sequence[Candidate], first: slice, last: slice) -> Iterator[str]:
    """Yield two lines for each candidate: its measures a day, and what it has."""
    measures = [one for one in MEASURES if one.field in _OF_TABLE]
    rows = [["", *(f"{one.heading}{'' if one.unit == '%' else ' a day'}" for one in measures)]]
    for one in shown:
        mark = "chosen" if one is found.chosen else ""
        numbers = [
            " -> ".join(_daily(measure, one.days[days]) for days in (first, last))
            for measure in measures
        ]
        rows.append(["as it is" if one.is_today else mark, *numbers])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    described_as = ["", *(described(found.space, one.choice) for one in shown)]
    for row, settings in zip(rows, described_as, strict=True):
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield f"{_GAP}{_GAP.join([row[0].ljust(widths[0]), *cells])}".rstrip()
        if settings:
            yield f"{_GAP}{_GAP}{' ' * widths[0]}{settings}"


def _daily(measure: MeasureText, days: Sequence[Measures]) -> str:
    value = getattr(total(days), measure.field)
    return measure_text(measure, value if measure.unit == "%" else value / len(days))


def described(space: TuningSpace, choice: Choice) -> str:
    """Write what a candidate has."""
    return ", ".join(
        f"{_WORDS.get(name, name)} {_value_text(name, getattr(space, name)[number])}"
        for name, number in choice.items()
    )


_WORDS = {
    "target_factors": "targets x",
    "tolerances": "tolerance",
    "scale_up_windows": "up window",
    "scale_down_windows": "down window",
    "scale_up_percents": "up",
    "scale_down_percents": "down",
    "min_replicas": "minReplicas",
}


def _value_text(name: str, value: object) -> str:
    if name.endswith("windows"):
        return f"{value:g} s"
    if name.endswith("percents"):
        return f"{value}%/60 s"
    if name == "schedules":
        return " and ".join(one.name for one in value) or "none"  # type: ignore[attr-defined]
    return f"{value}"


def _judgement(found: Tuned) -> Iterator[str]:
    """Say how what was chosen did on the days that it was not chosen by."""
    preference, last = found.preference, slice(found.split, found.days)
    chosen, today = total(found.chosen.days[last]), total(found.today.days[last])
    better = preference.key(chosen) < preference.key(today)
    yield (
        "on the last days what was chosen is better than the configuration as it is"
        if better
        else "on the last days what was chosen is no better than the configuration as it is: it "
        "may only remember the first ones"
    )
    folds = found.folds()
    won = sum(preference.key(one.judged) < preference.key(one.today) for one in folds)
    yield (
        f"chosen anew before each of the last days by all days before it, it is better on {won} of "
        f"{len(folds)}"
    )


def pasted(before: Target, after: Target) -> Iterator[str]:
    """Yield the YAML of those keys of a target that differ."""
    yield from as_yaml(changed_parts(before, after)).splitlines()


def _document(found: Tuned) -> dict[str, object]:
    first, last = slice(0, found.split), slice(found.split, found.days)
    on_front = front(found.candidates, first)

    def told(one: Candidate) -> dict[str, object]:
        return {
            "settings": {
                name: str(getattr(found.space, name)[number]) for name, number in one.choice.items()
            },
            "today": one.is_today,
            "front": one in on_front,
            "chosen": one is found.chosen,
            "firstDays": asdict(total(one.days[first])),
            "lastDays": asdict(total(one.days[last])),
        }

    after = applied_to(found.target, found.space, found.chosen.choice)
    return {
        "target": found.target.key,
        "days": found.days,
        "chosenBy": found.split,
        "candidates": [told(one) for one in found.candidates],
        "configuration": as_written(after),
        "interrupted": found.interrupted,
    }
