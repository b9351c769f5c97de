"""The common parts of `replay` and `tune`: the data, the targets, the time."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from autoscaler import clock
from autoscaler.cli import times
from autoscaler.cli.asked_queries import named_queries
from autoscaler.cli.output import ArgumentError, CommandError
from autoscaler.cli.target_names import chosen_targets
from autoscaler.config import Config
from autoscaler.core.target import Target
from autoscaler.core.text import printable, rfc3339
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import ReplayData, stated_loads, unmatched
from autoscaler.lab.engine.replay import ReplayPlan, reach
from autoscaler.lab.options import ReplayOptions
from autoscaler.lab.other_files import read_file
from autoscaler.lab.past.file_data import FileData, Samples, SamplesError, read_samples
from autoscaler.lab.past.prometheus_data import prometheus_data
from autoscaler.lab.past.range_files import default_folder
from autoscaler.lab.past.range_needs import TimeGrid
from autoscaler.lab.past.record import RecordedData
from autoscaler.persistence.record import DirectoryRecord

_FORM = "assumptions are a mapping with `loads` and `workloads`"
_LONGEST_SECONDS = 400 * 86_400.0


def plan_of(
    config: Config,
    names: Sequence[str],
    options: ReplayOptions,
    stack: ExitStack,
    span: tuple[float, float] | None = None,
) -> ReplayPlan:
    """Return the plan of a replay. Raises CommandError and ArgumentError.

    ``names`` are the targets, all if empty. ``stack`` closes the data. ``span`` is the period in
    Unix seconds, in place of the options'.
    """
    targets = chosen_targets(config.targets, names)
    if not targets:
        raise CommandError(f"{config.path} has no targets to replay")
    if options.from_record and options.csv:
        raise ArgumentError("set only one of --from-record and --csv")
    if options.begin is None and not options.csv:
        raise ArgumentError("--since is missing: the start of the period")
    assumptions = _assumptions(options, config)
    warm_up = max(reach(target, config.flags) for target in targets)
    data: ReplayData
    if options.csv:
        data = files = _file_data(config, targets, options, assumptions)
        begin, end = span or _time(options, *files.span())
        warm_up = 0.0
    elif options.from_record:
        begin, end = span or _time(options, 0.0, clock.wall())
        data = _recorded_data(options, config, begin - warm_up, end)
    else:
        step = _step(targets, options)
        begin, end = span or _on_grid(_time(options, 0.0, clock.wall()), step)
        time = TimeGrid(begin - warm_up, end, step)
        data = _prometheus_data(config, targets, assumptions, options, time, stack)
    return ReplayPlan(targets, config.flags, data, assumptions, begin, end, warm_up, config.breaker)


def _assumptions(options: ReplayOptions, config: Config) -> Assumptions:
    if options.assume is None:
        return Assumptions()
    assumptions = read_file(options.assume, _FORM).model(Assumptions)
    wrong = unmatched(assumptions, config.targets)
    if lines := [f"{options.assume}: {path}: {sentence}" for path, sentence in wrong]:
        raise ArgumentError("\n".join(lines))
    return assumptions


def _time(options: ReplayOptions, first: float, last: float) -> tuple[float, float]:
    """Return the period of the options, by default from ``first`` to ``last``."""
    now = max(clock.wall(), last)
    begin = first if options.begin is None else times.instant(options.begin, now)
    end = last if options.end is None else times.instant(options.end, now)
    if begin >= end:
        until = "the end of the samples" if options.csv and options.end is None else "--until"
        raise ArgumentError(f"--since ({rfc3339(begin)}) must be before {until} ({rfc3339(end)})")
    if end - begin > _LONGEST_SECONDS:
        raise ArgumentError("the period from --since to --until is longer than 400 days")
    if options.step is not None and options.step > end - begin:
        raise ArgumentError(
            f"--step ({options.step:g} s) is longer than the period ({end - begin:g} s)"
        )
    return begin, end


# -- the data --------------------------------------------------------------------------------------


def _recorded_data(options: ReplayOptions, config: Config, begin: float, end: float) -> ReplayData:
    directory = options.state_directory or config.state_directory
    if directory is None:
        raise ArgumentError("stateDirectory is null: name the record with --state-directory")
    record = DirectoryRecord(directory)
    span = record.span()
    if span is None or span[1] < begin or span[0] > end:
        told = "" if span is None else f"; it has {rfc3339(span[0])} to {rfc3339(span[1])}"
        raise CommandError(f"the record in {directory} has nothing of that time{told}")
    return RecordedData(record, begin, end, config.flags)


def _file_data(
    config: Config, targets: Sequence[Target], options: ReplayOptions, assumptions: Assumptions
) -> FileData:
    """Return the samples of all files.  Raises CommandError with all their errors."""
    named = {key.promql: name for name, key in named_queries(config).items()}
    arrivals = dict(_arrivals(targets, assumptions))
    named |= arrivals
    known = dict.fromkeys([*_names_of_queries(targets, named), *arrivals.values()])
    files: dict[str, Samples] = {}
    given: set[str] = set()
    mistakes = []
    for text in options.csv:
        name, path = _named_file(text)
        if name in given:
            mistakes.append(f"--csv {text}: {name or 'a file without a name'} is given twice")
        elif name and name not in known:
            mistakes.append(f"--csv {text}: no query or metric is called {name}; {_are(known)}")
        elif not name and len(known) > 1:
            mistakes.append(f"--csv {text}: write NAME={path}; {_are(known)}")
        given.add(name)
        try:
            files[name] = read_samples(path)
        except SamplesError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ArgumentError("\n".join(mistakes))
    return FileData(files, named, assumptions)


def _arrivals(targets: Sequence[Target], assumptions: Assumptions) -> Iterator[tuple[str, str]]:
    """Yield the query of each queue's arrivals, and the name of its file."""
    for target in targets:
        for metric in target.spec.metrics:
            for load in stated_loads(assumptions, target, metric):
                if load.arrivals is not None:
                    yield load.arrivals, f"{metric.name}:arrivals"


def _named_file(text: str) -> tuple[str, Path]:
    """Return the name before the last =, empty without one, and the path of a file."""
    name, equals, path = text.rpartition("=")
    return ("", Path(text)) if not equals or Path(text).exists() else (name, Path(path))


def _names_of_queries(targets: Sequence[Target], named: Mapping[str, str]) -> Iterator[str]:
    """Yield the possible names of the files of all targets' queries, each query once."""
    for target in targets:
        metrics = dict(zip(target.queries, target.spec.metrics, strict=True))
        for query in target.all_queries:
            metric = metrics.get(query)
            own = query.promql if metric is None else metric.name
            yield named.get(query.promql, own)


def _are(known: Iterable[str]) -> str:
    names = [printable(name, 60) for name in islice(known, 10)]
    return f"there are: {', '.join(names)}" if names else "no name is known"


def _on_grid(span: tuple[float, float], step: float) -> tuple[float, float]:
    """Return a begin rounded to the grid, unless it was given to the second.

    So the data that were fetched for `2h ago` need not be fetched again a little later.
    """
    begin, end = span
    return begin if begin.is_integer() else begin // step * step, end


def _step(targets: Sequence[Target], options: ReplayOptions) -> float:
    """Return the seconds between two evaluations; by default each sync has one."""
    if options.step is not None:
        return options.step
    return max(math.gcd(*(round(target.sync_period * 1000) for target in targets)) / 1000, 1.0)


def _prometheus_data(
    config: Config,
    targets: Sequence[Target],
    assumptions: Assumptions,
    options: ReplayOptions,
    time: TimeGrid,
    stack: ExitStack,
) -> ReplayData:
    cache = None if options.no_cache else options.cache or default_folder()
    with progress_bar(0.0, 1.0, "asking Prometheus") as tell:
        opened = prometheus_data(
            config, targets, assumptions, time, cache, lambda done, of: tell(done / (of or 1))
        )
        data = stack.enter_context(opened)
    for sentence in data.told:
        print(f"note: {sentence}", file=sys.stderr)
    return data


@contextmanager
def progress_bar(begin: float, end: float, what: str) -> Iterator[Callable[[float], object]]:
    """Show the progress of a replay on a terminal, and the time left; yield its callback."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=end - begin)
        yield lambda instant: shown.update(task, completed=max(0.0, instant - begin))
