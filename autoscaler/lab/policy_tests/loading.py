"""Reads a file of policy tests and the configuration that it tests, or refuses it whole."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from autoscaler.cli.asked_queries import named_queries
from autoscaler.cli.object_files import with_objects
from autoscaler.config import Config, ConfigError, durations, load
from autoscaler.config.documents import Location, Value
from autoscaler.config.error_messages import suggestion
from autoscaler.config.fields import absolute
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.models import Model, fields_by_key
from autoscaler.config.problems import Finding, Problem, below
from autoscaler.config.settings import KEYS, Sources
from autoscaler.core.spec import SOURCES
from autoscaler.core.status import ABLE_TO_SCALE, FALLBACK, SCALING_ACTIVE, SCALING_LIMITED
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.building import BuildError, is_called
from autoscaler.lab.engine.loads import LoadModel
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.lab.other_files import MappingFile, read_file
from autoscaler.lab.policy_tests.running import built_targets
from autoscaler.lab.policy_tests.settings import (
    Expectation,
    NamedSeries,
    PolicyTest,
    PolicyTests,
    Reader,
    ReadyTest,
    SeriesNames,
    WorldEvent,
)
from autoscaler.lab.series_notation import count_of

_FORM = "a file of policy tests is a mapping with `tests`, and `config` or `targets`"
_OWN_KEYS = frozenset(fields_by_key(PolicyTests))
_SERVER: Mapping[str, Value] = {"prometheus": {"url": "http://127.0.0.1:9090"}}
"""No test asks it, but a configuration must name one."""


@dataclass(frozen=True)
class PolicyTestFile:
    """A file of tests that can run."""

    source: MappingFile
    config: Config
    content: bytes | None
    """The content of the file, if the configuration is in it, too."""
    tests: tuple[ReadyTest, ...]

    def line(self, location: Location) -> int:
        """Return the line of a place in it."""
        return self.source.places[location].line


def load_tests(path: Path, objects: Sequence[Path] | None = None) -> PolicyTestFile:
    """Read a file of tests.  Raises ConfigError with every problem at once."""
    source = read_file(path, _FORM)
    model, config, content = None, None, None
    refused: list[Problem] = []
    sources = Sources({})
    try:
        model = source.model(PolicyTests, _tests_part(source))
    except ConfigError as error:
        refused += error.problems
    try:
        config, content = _config_of(source)
        config = with_objects(config, objects)
        sources = config.sources
    except ConfigError as error:
        refused += [problem for problem in error.problems if problem not in refused]
        sources = error.sources
    if model is None or config is None or refused:
        raise ConfigError(refused, sources)
    ready = _TestLoader(model, config, content)
    tests = tuple(ready.test(number, policy_test) for number, policy_test in enumerate(model.tests))
    try:
        source.refuse(ready.findings)
    except ConfigError as error:
        raise ConfigError(error.problems, sources) from None
    return PolicyTestFile(source, config, content, tuple(filter(None, tests)))


def _tests_part(source: MappingFile) -> Mapping[str, Value]:
    """Return the part that is not a configuration, with each series as written."""
    own = {
        key: value
        for key, value in source.value.items()
        if key in _OWN_KEYS or not (key in KEYS or key.startswith("x-"))
    }
    tests = own.get("tests")
    if isinstance(tests, list):
        own["tests"] = [
            _with_texts(source, number, policy_test) for number, policy_test in enumerate(tests)
        ]
    return own


def _with_texts(source: MappingFile, number: int, test: Value) -> Value:
    """Return a test whose series are texts: 0x10 is eleven zeros, and a number to YAML."""
    series = test.get("series") if isinstance(test, dict) else None
    if not isinstance(test, dict) or not isinstance(series, dict):
        return test
    texts: dict[str, Value] = {}
    for name, value in series.items():
        texts[name] = value
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = source.places["tests", number, "series", name].plain
            texts[name] = written or str(value)
    return {**test, "series": texts}


def _config_of(source: MappingFile) -> tuple[Config, bytes | None]:
    """Read the named configuration, or the one in the file."""
    inline = sorted(KEYS & source.value.keys())
    named = source.value.get("config")
    if named is None and not inline:
        message = "is missing: the configuration that is tested; or write its `targets` here"
        source.refuse([Finding(("config",), message, show_value=False)])
    if named is not None and inline:
        message = "cannot be used with `config`; keep one"
        source.refuse([Finding((inline[0],), message, show_value=False)])
    if isinstance(named, str) and "\0" not in named:
        path = absolute(named, source.path.parent)
        return load(path, namespace_or_anywhere, uses_files=False), None
    if named is not None:
        source.refuse([Finding(("config",), "must be the name of a file")])
    config = load(
        source.path, namespace_or_anywhere, source.text, part=_config_part, uses_files=False
    )
    return config, source.text


def _config_part(value: Value) -> Value:
    given = value if isinstance(value, dict) else {}
    return {**_SERVER, **{key: value for key, value in given.items() if key in KEYS}}


class _TestLoader:
    """Checks test after test, and makes them ready; collects the findings."""

    def __init__(self, model: PolicyTests, config: Config, content: bytes | None) -> None:
        self.findings: list[Finding] = []
        self._model = model
        self._config = config
        named = named_queries(config, content)
        self._of_queries = {key: name for name, key in named.items()}

    def test(self, number: int, test: PolicyTest) -> ReadyTest | None:
        """Return a test that can run; None if there are findings."""
        before, place = len(self.findings), ("tests", number)
        targets = self._targets(test, place)
        if not targets:
            return None
        names = SeriesNames(targets, test.loads, self._of_queries)
        series = self._series(test, place, names)
        interval = (
            test.interval or self._model.interval or min(target.sync_period for target in targets)
        )
        duration = _duration(test, interval)
        found = mistakes_of(test, targets, duration)
        self.findings += (below(place, finding) for finding in found)
        never = tuple(
            (where, clause)
            for where, clause in (
                ("never", self._model.never),
                (f"tests[{number}].never", test.never),
            )
            if clause is not None
        )
        if not never and not test.expect:
            self._find(place, "expects nothing: write `expect`, or `never`")
        ready = ReadyTest(
            number,
            test,
            targets,
            self._config.flags,
            self._config.breaker,
            interval,
            duration,
            series,
            never,
            self._faulty(test, place, names),
        )
        if len(self.findings) == before:
            self._build(ready, place)
        return ready if len(self.findings) == before else None

    def _build(self, ready: ReadyTest, place: Location) -> None:
        """Find what only its simulated targets show."""
        try:
            targets = built_targets(ready)
        except BuildError as error:
            self._find((*place, "loads"), str(error))
            return
        found = of_no_pod(ready, [target.target for target in targets])
        self.findings += (below(place, finding) for finding in found)

    def _find(self, location: Location, message: str, *, shown: bool = False) -> None:
        self.findings.append(Finding(location, message, show_value=shown))

    def _targets(self, test: PolicyTest, place: Location) -> tuple[Target, ...]:
        every = self._config.targets
        if test.target is None:
            if len(every) == 1:
                return every
            message = f"is missing: the configuration has {len(every)} targets: {listed(every)}"
            self._find((*place, "target"), message)
            return ()
        found = tuple(target for target in every if is_called(target, test.target))
        if not found:
            message = f"is not a target of the configuration; known: {listed(every)}"
            self._find((*place, "target"), message, shown=True)
        return found

    def _series(
        self, test: PolicyTest, place: Location, names: SeriesNames
    ) -> tuple[NamedSeries, ...]:
        stated = []
        for name, items in test.series.items():
            try:
                stated.append(names.series(name, items))
            except ValueError as error:
                self._find((*place, "series", name), str(error))
        read = {reader for assumption in stated for reader in assumption.readers}
        lacking = dict.fromkeys(
            name for reader, name in names.metrics.items() if reader not in read
        )
        for name in lacking:
            message = f"says nothing of {name}: write its samples, or _ for none"
            self._find((*place, "series"), message)
        return tuple(stated)

    def _faulty(
        self, test: PolicyTest, place: Location, names: SeriesNames
    ) -> dict[str, frozenset[tuple[str, int] | QueryKey]]:
        found = {}
        for index, event in enumerate(test.events):
            if event.query is not None:
                try:
                    found[event.query] = frozenset(names.series(event.query).readers)
                except ValueError as error:
                    self._find((*place, "events", index, "query"), str(error), shown=True)
        return found


def _duration(test: PolicyTest, interval: float) -> float:
    """Return how long a test runs, in seconds."""
    if test.duration is not None:
        return test.duration
    ends = [expected.to if expected.at is None else expected.at for expected in test.expect]
    ends += [event.at + (event.for_ or 0.0) for event in test.events]
    ends += [(count_of(items) - 1) * interval for items in test.series.values()]
    return max((0.0, *(end for end in ends if end is not None)))


# -- what does not go together ---------------------------------------------------------------------


MOST_SYNCS = 20_000
"""The most syncs of all targets of a test: three days of one target, every 15 seconds."""
MOST_REPLICAS = 100_000
"""Of each target; each is a pod in memory."""
_MOST_LISTED = 10

_AT_ONCE = ("set_replicas", "restart", "lose_state", "takeover")
_PLACES = frozenset({"at", "from_", "to", "target", "for_", "by", "query"})
"""Fields that say of what, and when."""
_LASTING = tuple(
    name for name in WorldEvent.model_fields if name not in _PLACES and name not in _AT_ONCE
)
_FACTS = tuple(name for name in Expectation.model_fields if name not in _PLACES)
EVENTS = (
    *("SuccessfulRescale", "FailedRescale", "FailedGetScale", "FailedComputeMetricsReplicas"),
    *("SelectorRequired", "InvalidSelector", "AmbiguousSelector", "FailedListPods"),
    *("ControlledByOther", "ReplicasContested", "InvalidAnnotation"),
    *("FallbackActive", "FallbackEnded", *(f"FailedGet{kind}Metric" for kind in SOURCES)),
)
"""The reasons of the Events of a sync."""
_CONDITIONS = (ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED, FALLBACK)


def mistakes_of(test: PolicyTest, targets: Sequence[Target], duration: float) -> Iterator[Finding]:
    """Find contradictions in a test of some targets that lasts ``duration`` seconds."""
    syncs = sum(math.floor(duration / target.sync_period) + 1 for target in targets)
    if syncs > MOST_SYNCS:
        message = f"takes {syncs:,} syncs; the most is {MOST_SYNCS:,}: make it shorter"
        yield _finding((), message)
    yield from _many_replicas(test, targets)
    for at, of in _with_targets(test):
        if not any(is_called(target, of) for target in targets):
            message = f"is not a target of the test; known: {listed(targets)}"
            yield Finding((*at, "target"), message)
    names = [metric.name for target in targets for metric in target.spec.metrics]
    for index, assumed in enumerate(test.loads):
        if not any(fnmatchcase(name, assumed.metric) for name in names):
            message = f"is not a metric of the tested targets; known: {_joined(names)}"
            yield Finding(("loads", index, "metric"), message)
    for index, event in enumerate(test.events):
        yield from (below(("events", index), finding) for finding in _of_event(event, duration))
    for index, expected in enumerate(test.expect):
        yield from (
            below(("expect", index), finding) for finding in _of_expectation(expected, duration)
        )


def of_no_pod(test: ReadyTest, targets: Sequence[SimulatedTarget]) -> Iterator[Finding]:
    """Find the series that nothing reads, since no pod of these targets is called so."""
    by_key = {target.key: target for target in targets}
    begin = test.model.start.at
    for series in test.series:
        if any(_is_read(series, reader, by_key) for reader in series.readers):
            continue
        keys = dict.fromkeys(reader[0] for reader in series.readers)
        pods = [pod for key in keys for pod in by_key[key].workload.ready_names(begin)]
        message = f"names no pod of the tested targets; at the start they have: {_joined(pods)}"
        yield _finding(("series", series.name), message)


def _is_read(series: NamedSeries, reader: Reader, by_key: Mapping[str, SimulatedTarget]) -> bool:
    """Return whether a reader takes a series; readers that are not per pod take any."""
    if series.labels is None or isinstance(reader, QueryKey):
        return True
    key, number = reader
    target = by_key[key]
    query, metric = target.rules.target.queries[number], target.rules.target.spec.metrics[number]
    if not metric.of_pods or target.loads[number].model is not LoadModel.RECORDED:
        return True
    names = query.labels
    namespace = series.labels.get(names.namespace, target.rules.target.namespace)
    pod = series.labels.get(names.pod, "")
    return namespace == target.rules.target.namespace and target.workload.may_have(pod)


def listed(targets: Sequence[Target]) -> str:
    """List the keys of targets for a message, as many as one reads."""
    return _joined([target.key for target in targets])


def _joined(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    shown = ", ".join(names[:_MOST_LISTED]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def _finding(location: Location, message: str) -> Finding:
    return Finding(location, message, show_value=False)


def _with_targets(test: PolicyTest) -> Iterator[tuple[Location, str]]:
    """Yield what names targets, and its pattern."""
    for key in ("loads", "workloads", "events", "expect"):
        for index, item in enumerate(getattr(test, key)):
            yield (key, index), item.target


def _many_replicas(test: PolicyTest, targets: Sequence[Target]) -> Iterator[Finding]:
    counts: list[tuple[Location, int | None]] = [(("start", "replicas"), test.start.replicas)]
    for index, workload in enumerate(test.workloads):
        counts.append((("workloads", index, "replicas"), workload.replicas))
    for index, event in enumerate(test.events):
        counts.append((("events", index, "setReplicas"), event.set_replicas))
    most = f"and a test may have {MOST_REPLICAS:,}"
    for at, count in counts:
        if count is not None and count > MOST_REPLICAS:
            yield _finding(at, f"is {count:,} replicas, {most}")
    for target in targets:
        windows = (schedule.max_replicas or 0 for schedule in target.extensions.schedules)
        maximum = max((target.spec.max_replicas, *windows))
        if maximum > MOST_REPLICAS:
            yield _finding((), f"{target.key} may have {maximum:,} replicas, {most}")


def _of_event(event: WorldEvent, duration: float) -> Iterator[Finding]:
    lasting, at_once = _key_texts(event, _LASTING), _key_texts(event, _AT_ONCE)
    if not lasting and not at_once:
        yield _finding(
            (), f"says nothing: write one of {_keys((*_AT_ONCE, *_LASTING), WorldEvent)}"
        )
    if event.for_ is not None and at_once:
        keys = _keys(at_once, WorldEvent)
        yield _finding(("for",), f"does not go with {keys}, which happens at once")
    if event.down and event.for_ is None:
        yield _finding(("for",), "is missing: write how long the daemon does not run")
    if event.query is not None and not (event.query_fails or event.partial):
        yield _finding(("query",), "needs queryFails or partial next to it")
    if event.at > duration:
        yield _after_the_end(("at",), duration)


def _of_expectation(expected: Expectation, duration: float) -> Iterator[Finding]:
    first, last = expected.from_, expected.to
    is_time = first is not None and last is not None
    if (expected.at is not None) == is_time or (first is None) != (last is None):
        yield _finding((), "needs `at`, or both `from` and `to`")
    if first is not None and last is not None and first > last:
        yield _finding(("to",), "is before `from`")
    if not _key_texts(expected, _FACTS):
        yield _finding((), f"expects nothing: write one of {_keys(_FACTS, Expectation)}")
    if expected.no_change and not is_time:
        yield _finding(("noChange",), "goes with `from` and `to`")
    if expected.event is not None and expected.event not in EVENTS:
        yield Finding(
            ("event",), f"is not an event of a sync: {suggestion(expected.event, EVENTS)}"
        )
    for kind in (expected.conditions or {}).keys() - {*_CONDITIONS}:
        yield _finding(("conditions", kind), f"is not a condition: {suggestion(kind, _CONDITIONS)}")
    end = expected.at if last is None else last
    if end is not None and end > duration:
        yield _after_the_end(("at" if last is None else "to",), duration)


def _after_the_end(at: Location, duration: float) -> Finding:
    lasts = durations.format_seconds(duration)
    return _finding(at, f"is after the end: the test lasts {lasts}")


def _key_texts(model: Model, names: Iterable[str]) -> list[str]:
    values = ((name, getattr(model, name)) for name in names)
    return [name for name, value in values if value is not None and value is not False]


def _keys(names: Iterable[str], of: type[Model]) -> str:
    return ", ".join(of.model_fields[name].alias or name for name in names)
