"""`autoscaler tune`: searches for better settings of one target."""

import json
import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from autoscaler import clock
from autoscaler.cli.asked_queries import named_queries
from autoscaler.cli.object_files import load_with_objects
from autoscaler.cli.output import ArgumentError, CommandError, aligned, print_text, wrapped
from autoscaler.cli.target_names import chosen_targets
from autoscaler.config import Config
from autoscaler.config.documents import as_flow, as_yaml
from autoscaler.config.durations import format_seconds
from autoscaler.config.problems import Finding
from autoscaler.config.written import as_written
from autoscaler.core.spec import SOURCES
from autoscaler.core.target import QueryKey, Target
from autoscaler.core.text import duration, rfc3339
from autoscaler.lab.engine.measures import A_DAY, LEAST_DAYS, Measures, total
from autoscaler.lab.engine.replay import Replay, ReplayPlan, run_replay
from autoscaler.lab.engine.tuning import (
    Candidate,
    Choice,
    Preference,
    TuningResult,
    TuningSpace,
    applied_to,
    settings_of,
)
from autoscaler.lab.options import ReplayOptions, ReportOptions, SearchOptions
from autoscaler.lab.other_files import read_file
from autoscaler.lab.rendering import (
    MEASURES,
    MeasureText,
    answer_of,
    day_counts_document,
    measure_text,
)
from autoscaler.lab.replay_plan import plan_of, progress_bar
from autoscaler.lab.report_page import refuse_to_overwrite, write_report
from autoscaler.rendering.wording import counted

_FORM = "a space is a mapping such as `targetFactors: [0.8, 1.0]`"
_LEAST_DAYS = 2
_CHOOSING_SHARE = 0.5
"""The part of the days for search and choice; the rest is for the judgement."""
_BATCH = 8
"""The candidates per round on any machine, so that the search is reproducible."""


def tune(
    name: str,
    file: Path,
    options: ReplayOptions,
    search: SearchOptions,
    report: ReportOptions,
    *,
    as_json: bool,
) -> int:
    """Search for better settings of one target, and print them; return the exit code.

    It is 1 if the target cannot be replayed, or an interrupt has ended the search.
    """
    optuna = _optuna()
    refuse_to_overwrite(report)
    config = load_with_objects(file, options.objects)
    target = _target(config, name)
    space = _space(search.space, target)
    with ExitStack() as stack:
        plan = _whole_days(plan_of(config, [target.key], options, stack))
        plan = replace(plan, per_pod=plan.yardstick())
        found = _Search(plan, space, search).done(optuna, options.processes)
        if report.report is not None:
            both = {
                "as it is": answer_of(_replay_of(plan, target)),
                "tuned": answer_of(_replay_of(plan, found.tuned)),
            }
            write_report(both, f"Tuning of {target.key}", report)
    if as_json:
        print(json.dumps(document_of(found), indent=2))
    else:
        print_text("\n".join(lines_of(found, plan.begin, config)))
    if found.interrupted:
        tried = len(found.candidates) - 1
        of = counted(search.trials, "candidate")
        print(f"interrupted: replayed {tried} of {of}", file=sys.stderr)
    return 1 if found.interrupted else 0


def _optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError("a search needs optuna: pip install 'promql-autoscaler[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _target(config: Config, name: str) -> Target:
    named = chosen_targets(config.targets, [name])
    if len(named) != 1:
        raise ArgumentError(f"{name} means {len(named)} targets: name one")
    return named[0]


def _space(path: Path | None, target: Target) -> TuningSpace:
    """Return the space of a file, or the default. Raises ConfigError with every error."""
    if path is None:
        return TuningSpace()
    file = read_file(path, _FORM)
    space = file.model(TuningSpace)
    most = target.spec.max_replicas
    message = f"must be at most {most}, maxReplicas of {target.key}"
    places = [at for at, least in enumerate(space.min_replicas) if least > most]
    file.refuse([Finding(("minReplicas", at), message) for at in places])
    return space


def _whole_days(plan: ReplayPlan) -> ReplayPlan:
    """Return the plan up to the end of its last whole day. Raises CommandError for too few."""
    days = int((plan.end - plan.begin + 1.0) // A_DAY)
    if days < _LEAST_DAYS:
        raise CommandError(
            f"the time of {duration(plan.end - plan.begin)} has "
            f"{'one whole day' if days == 1 else 'no whole day'}: with fewer than {_LEAST_DAYS} "
            "nothing can be chosen by some days and judged on others"
        )
    return replace(plan, end=plan.begin + days * A_DAY)


def _replay_of(plan: ReplayPlan, target: Target) -> Replay:
    done = run_replay(replace(plan, targets=[target]))
    if done.refused:
        raise CommandError("\n".join(done.refused))
    return done


# -- the search ------------------------------------------------------------------------------------

_at_hand: tuple[ReplayPlan, TuningSpace] | None = None
"""The data of a process of a search."""


def _begin(plan: ReplayPlan, space: TuningSpace) -> None:
    """Begin a process of a search: it is forked, so that loaded data need not be sent."""
    global _at_hand  # noqa: PLW0603 - the pool hands nothing else to its calls
    _at_hand = plan, space
    # The searching process ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _days_of(choice: Choice) -> tuple[Measures, ...]:
    """Replay one candidate, in a process of the search."""
    if _at_hand is None:
        raise RuntimeError("a search has not begun")
    plan, space = _at_hand
    return _replay_of(plan, applied_to(plan.targets[0], space, choice)).outcomes[0].days


class _Search:
    """One search; the optimizer sees only the first days of its candidates."""

    def __init__(self, plan: ReplayPlan, space: TuningSpace, search: SearchOptions) -> None:
        self._plan = plan
        self._space = space
        self._search = search
        costs = search.shortage_cost, search.replica_hour_cost
        self._preference = Preference(*costs, search.most_shortage)
        self._days = round((plan.end - plan.begin) / A_DAY)
        self._split = min(self._days - 1, max(1, round(self._days * _CHOOSING_SHARE)))
        self._found: dict[tuple[int, ...], Candidate] = {}
        """By the choice; an empty choice is the current target, which is the first."""

    def done(self, optuna: Any, processes: int) -> TuningResult:
        """Search to the end, or until an interrupt.  Raises CommandError."""
        context, interrupted = multiprocessing.get_context("fork"), False
        sampler = optuna.samplers.NSGAIISampler(seed=self._search.seed, population_size=2 * _BATCH)
        study = optuna.create_study(directions=["minimize"] * 3, sampler=sampler)
        initial = (self._plan, self._space)
        try:
            with ProcessPoolExecutor(processes, context, _begin, initial) as pool:
                try:
                    self._try(study, pool, processes)
                except KeyboardInterrupt:
                    interrupted = True
                    pool.shutdown(wait=False, cancel_futures=True)
        except BrokenProcessPool:
            raise CommandError(
                "a process of the search has died: is there enough memory?"
            ) from None
        if not self._found:
            raise CommandError("interrupted before anything was replayed")
        return TuningResult(
            self._plan.targets[0],
            self._space,
            self._preference,
            self._days,
            self._split,
            tuple(self._found.values()),
            interrupted,
        )

    def _try(self, study: Any, pool: ProcessPoolExecutor, processes: int) -> None:
        """Try the current target, then candidates in batches."""
        begun = clock.monotonic()
        # It also forks all processes, before the bar has a thread.
        self._replay(pool, [{}])
        self._tell_duration(clock.monotonic() - begun, processes)
        with progress_bar(0.0, float(self._search.trials), "tune") as tell:
            for done in self._batches(study, pool):
                tell(done)

    def _tell_duration(self, seconds: float, processes: int) -> None:
        trials = self._search.trials
        of = "1 process" if processes == 1 else f"{processes} processes"
        lasts = duration(max(1.0, seconds * trials / min(processes, _BATCH)))
        print(
            f"note: a candidate takes {seconds:.1f} s, {trials} in {of} about {lasts}",
            file=sys.stderr,
        )

    def _batches(self, study: Any, pool: ProcessPoolExecutor) -> Iterator[float]:
        """Try the optimizer's proposals; yield their number after each batch."""
        counts, trials = settings_of(self._space), self._search.trials
        for begun in range(0, trials, _BATCH):
            asked = [study.ask() for _ in range(min(_BATCH, trials - begun))]
            choices = [
                {
                    name: check.suggest_categorical(name, range(count))
                    for name, count in counts.items()
                }
                for check in asked
            ]
            self._replay(pool, choices)
            for check, choice in zip(asked, choices, strict=True):
                days = self._found[_key(choice)].days[: self._split]
                study.tell(check, self._preference.objectives(total(days)))
            yield float(begun + len(asked))

    def _replay(self, pool: ProcessPoolExecutor, choices: Iterable[Choice]) -> None:
        """Replay new candidates; an interrupt keeps the previous ones."""
        new: Sequence[Choice] = list(
            {_key(choice): choice for choice in choices if _key(choice) not in self._found}.values()
        )
        begun: list[Future[tuple[Measures, ...]]] = [pool.submit(_days_of, fact) for fact in new]
        for choice, future in zip(new, begun, strict=True):
            self._found[_key(choice)] = Candidate(choice, future.result())


def _key(choice: Choice) -> tuple[int, ...]:
    return tuple(choice.values())


# -- as text ---------------------------------------------------------------------------------------


_MOST_SHOWN = 10
_GAP = "  "
_WIDTH = 80
_WORDS = {
    "target_factors": "targets x",
    "tolerances": "tolerance",
    "scale_up_windows": "up window",
    "scale_down_windows": "down window",
    "scale_up_percents": "up",
    "scale_down_percents": "down",
    "min_replicas": "minReplicas",
}


def lines_of(found: TuningResult, begin: float, config: Config) -> Iterator[str]:
    """Yield the result of a search, and the YAML to paste."""
    end = begin + found.days * A_DAY
    first, judged = found.first_days, found.days - found.split
    yield f"{found.target.key}, {rfc3339(begin)} to {rfc3339(end)}, {found.days} days"
    tried = len(found.candidates) - 1
    were = "candidate was" if tried == 1 else "candidates were"
    yield f"{tried} {were} replayed, of this space:"
    for key, values in space_document(found.space).items():
        yield f"{_GAP}{key}: {as_flow(values)}"
    yield f"preferred: {_preferred(found.preference)}"
    split, rest = _days(found.split), _days(judged)
    yield f"chosen by the first {split}, evaluated on the last {rest}; both are shown"
    yield ""
    on_front = found.front()
    shown = sorted(
        on_front, key=lambda candidate: found.preference.key(total(candidate.days[first]))
    )
    shown = shown[:_MOST_SHOWN]
    objectives = [objective.heading for objective in _objectives(found.preference)]
    told = f"none is better than one of these in {', '.join(objectives[:-1])} and {objectives[-1]}"
    told += " together"
    if len(shown) < len(on_front):
        told += f"; the {len(shown)} of {len(on_front)} that are preferred most"
    if found.today not in shown:
        shown.append(found.today)
        told += "; next to the current configuration"
    yield f"{told}:"
    yield ""
    shown.sort(key=lambda candidate: total(candidate.days[first]).replica_hours)
    yield from _table(found, shown)
    yield ""
    if found.chosen.is_today:
        yield "none that was tried is preferred to the configuration as it is"
        return
    yield from _judgement(found)
    if not _is_better(found):
        return
    yield ""
    yield f"to paste into the entry of {found.target.key} in {config.path}:"
    yield ""
    yield from pasted(found.target, found.tuned, config)


def _days(number: int) -> str:
    return "day" if number == 1 else f"{number} days"


def _preferred(preference: Preference) -> str:
    if preference.most_short is not None:
        short = f"{100 * preference.most_short:g}%"
        return f"the fewest replica-hours with at most {short} under-provisioned time"
    return (
        f"the least of {preference.shortage_cost:g} for each missing pod-hour and "
        f"{preference.replica_hour_cost:g} for each replica-hour"
    )


def _objectives(preference: Preference) -> list[MeasureText]:
    """Return the measures of `Preference.objectives`."""
    shortage = "shortage_pod_hours" if preference.most_short is None else "tau_under"
    return [
        measure for measure in MEASURES if measure.field in {shortage, "replica_hours", "changes"}
    ]


# -- the table -------------------------------------------------------------------------------------


def _table(found: TuningResult, shown: Sequence[Candidate]) -> Iterator[str]:
    """Yield a line for each candidate, and below it its measures per day."""
    measures = _objectives(found.preference)
    rows = [
        [
            "",
            *(
                f"{measure.heading}{'' if measure.unit == '%' else ' a day'}"
                for measure in measures
            ),
        ]
    ]
    for candidate in shown:
        numbers = [
            " -> ".join(
                _daily(measure, candidate.days[days])
                for days in (found.first_days, found.last_days)
            )
            for measure in measures
        ]
        rows.append(["", *numbers])
    heading, *lines = (f"{_GAP}{line}".rstrip() for line in aligned(rows))
    yield heading
    for line, cell in zip(lines, shown, strict=True):
        has = "as it is" if cell.is_today else described(found.space, cell.choice)
        mark = "chosen: " if cell is found.chosen else ""
        yield from wrapped(f"{mark}{has}", _WIDTH, first=_GAP, others=2 * _GAP)
        yield line


def _daily(measure: MeasureText, days: Sequence[Measures]) -> str:
    value = getattr(total(days), measure.field)
    if value is not None and measure.unit != "%":
        value /= len(days)
    if value is not None and measure.field == "changes":
        return f"{value:.1f}"
    return measure_text(measure, value)


def described(space: TuningSpace, choice: Choice) -> str:
    """Return the settings of a candidate as text."""
    return ", ".join(
        f"{_WORDS[name]} {_value_text(name, getattr(space, name)[number])}"
        for name, number in choice.items()
    )


def _value_text(name: str, value: object) -> str:
    return f"{_written(name, value)}{'%/60s' if name.endswith('percents') else ''}"


# -- what to believe, and what to paste ------------------------------------------------------------


def _is_better(found: TuningResult) -> bool:
    """Return whether the choice is better on the days that it was not chosen by."""
    last, key = found.last_days, found.preference.key
    return key(total(found.chosen.days[last])) < key(total(found.today.days[last]))


def _judgement(found: TuningResult) -> Iterator[str]:
    """Return how the choice performed on the days that it was not chosen by."""
    counts = found.judged()
    if not _is_better(found):
        yield (
            "on the last days the chosen candidate is not better than the current "
            "configuration: what "
            "it gained on the first ones it does not keep"
        )
    elif counts.sure:
        yield "on the last days what was chosen is better than the configuration as it is"
    else:
        yield (
            "on the last days what was chosen is better than the configuration as it is, by no "
            "more than days differ by chance"
        )
    few = ": too few days to be sure" if counts.days < LEAST_DAYS else ""
    yield f"by days it is better on {counts.better} of {counts.days}{few}"


def pasted(before: Target, after: Target, config: Config) -> Iterator[str]:
    """Yield the YAML of those keys of a target that differ.

    Metrics whose query is one of `queries` still name it.
    """
    old, new = as_written(before), as_written(after)
    changed = {key: new.get(key) for key in new | old if new.get(key) != old.get(key)}
    if "metrics" in changed:
        changed["metrics"] = _by_name(after, changed["metrics"], named_queries(config))
    yield from as_yaml(changed).splitlines()


def _by_name(target: Target, metrics: object, named: Mapping[str, QueryKey]) -> object:
    """Omit the query of each metric whose name refers to it."""
    if not isinstance(metrics, list):
        return metrics
    for written, metric, query in zip(metrics, target.spec.metrics, target.queries, strict=True):
        if named.get(metric.name) == query.key:
            written[SOURCES[metric.type]].get("metric", {}).pop("query", None)
    return metrics


# -- as JSON ---------------------------------------------------------------------------------------


def space_document(space: TuningSpace) -> dict[str, object]:
    """Return a space in the form of its file, without settings that have no values."""
    return {
        to_camel(name): [_written(name, value) for value in getattr(space, name)]
        for name in TuningSpace.model_fields
        if getattr(space, name)
    }


def _written(name: str, value: object) -> object:
    if name.endswith("windows") and isinstance(value, float):
        return format_seconds(value)
    return value


def document_of(found: TuningResult) -> dict[str, object]:
    """Return the result of a search as JSON."""
    on_front, chosen = found.front(), found.chosen

    def document(candidate: Candidate) -> dict[str, object]:
        settings = {
            to_camel(name): _written(name, getattr(found.space, name)[number])
            for name, number in candidate.choice.items()
        }
        return {
            "settings": settings,
            "asItIs": candidate.is_today,
            "front": candidate in on_front,
            "chosen": candidate is chosen,
            "firstDays": total(candidate.days[found.first_days]).document(),
            "lastDays": total(candidate.days[found.last_days]).document(),
        }

    return {
        "target": found.target.key,
        "days": found.days,
        "chosenByDays": found.split,
        "space": space_document(found.space),
        "candidates": [document(candidate) for candidate in found.candidates],
        "lastDaysOfChosen": day_counts_document(found.judged()),
        "configuration": as_written(found.tuned),
        "interrupted": found.interrupted,
    }
