"""Reads a file of policy tests and the configuration that it tests, or refuses it whole."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaler.config import Config, ConfigError, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.other_files import OtherFile, read_file
from autoscaler.config.problems import Finding, Problem
from autoscaler.config.settings import KEYS
from autoscaler.core.target import QueryKey, Target
from autoscaler.documents import Location, Value
from autoscaler.policy_tests.running import ReadyTest, built_targets, matches
from autoscaler.policy_tests.series_names import NamedSeries, SeriesNames, names_of_queries
from autoscaler.rehearsal.building import BuildError
from autoscaler.series_notation import count_of
from autoscaler.settings import durations
from autoscaler.settings.models import Model, fields_by_key
from autoscaler.settings.policy_tests import Expectation, Never, PolicyTest, PolicyTests, WorldEvent

MOST_SYNCS = 20_000
"""Of all targets of a test: three days of one target each 15 seconds."""
_GENERATED_SECONDS = 3600.0
_FORM = "a file of policy tests is a mapping with `tests`, and `config` or `targets`"
_OWN_KEYS = frozenset(fields_by_key(PolicyTests))
_SERVER: Mapping[str, Value] = {"prometheus": {"url": "http://127.0.0.1:9090"}}
"""Nobody asks it; a configuration names one."""


@dataclass(frozen=True)
class PolicyTestFile:
    """A file of tests that can run; ``files`` are all that it was read from."""

    source: OtherFile
    config: Config
    content: bytes | None
    """That of the configuration, where it stands in the same file."""
    tests: tuple[ReadyTest, ...]

    def line(self, location: Location) -> int:
        """Return the line of a place in it."""
        return self.source.places[location].line

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that it was read from."""
        return (self.source.path.absolute(), *self.config.sources.digests)


def load_tests(path: Path) -> PolicyTestFile:
    """Read a file of tests.  Raises ConfigError with every problem at once."""
    source = read_file(path, _FORM)
    model, refused = None, list[Problem]()
    try:
        model = source.model(PolicyTests, _tests_part(source))
    except ConfigError as error:
        refused += error.problems
    config, content = None, None
    try:
        config, content = _config_of(source)
    except ConfigError as error:
        refused += [one for one in error.problems if one not in refused]
    if model is None or config is None or refused:
        raise ConfigError(refused)
    ready = _Preparing(model, config, content)
    tests = tuple(ready.test(number, one) for number, one in enumerate(model.tests))
    source.refuse(ready.findings)
    return PolicyTestFile(source, config, content, tuple(filter(None, tests)))


def _tests_part(source: OtherFile) -> Mapping[str, Value]:
    """Return what is no configuration, with each series as it is written."""
    own = {
        key: value
        for key, value in source.value.items()
        if key in _OWN_KEYS or not (key in KEYS or key.startswith("x-"))
    }
    tests = own.get("tests")
    if isinstance(tests, list):
        own["tests"] = [_with_texts(source, number, one) for number, one in enumerate(tests)]
    return own


def _with_texts(source: OtherFile, number: int, test: Value) -> Value:
    """Return a test whose series are texts: 0x10 is eleven zeros, and a number to YAML."""
    series = test.get("series") if isinstance(test, dict) else None
    if not isinstance(test, dict) or not isinstance(series, dict):
        return test
    texts: dict[str, Value] = {}
    for name, value in series.items():
        texts[name] = value
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            written = source.places["tests", number, "series", name].plain
            texts[name] = "" if value is None else written or str(value)
    return {**test, "series": texts}


def _config_of(source: OtherFile) -> tuple[Config, bytes | None]:
    """Read the configuration that is named, or the one that stands in the file."""
    inline = sorted(KEYS & source.value.keys())
    named = source.value.get("config")
    if named is None and not inline:
        message = "is missing: the configuration that is tested; or write its `targets` here"
        source.refuse([Finding(("config",), message, show_value=False)])
    if named is not None and inline:
        message = "stands beside `config`: the configuration is in one of the two"
        source.refuse([Finding((inline[0],), message, show_value=False)])
    if isinstance(named, str):
        path = source.path.parent / Path(named).expanduser()
        return load(path, namespace_or_anywhere, uses_files=False), None
    if named is not None:
        return _refused(source)
    config = load(
        source.path, namespace_or_anywhere, source.text, part=_config_part, uses_files=False
    )
    return config, source.text


def _refused(source: OtherFile) -> tuple[Config, bytes | None]:
    source.refuse([Finding(("config",), "must be the name of a file")])
    raise ConfigError(())


def _config_part(value: Value) -> Value:
    given = value if isinstance(value, dict) else {}
    return {**_SERVER, **{key: one for key, one in given.items() if key in KEYS}}


class _Preparing:
    """Checks test after test, and makes them ready; collects the findings."""

    def __init__(self, model: PolicyTests, config: Config, content: bytes | None) -> None:
        self.findings: list[Finding] = []
        self._model = model
        self._config = config
        self._of_queries = names_of_queries(config, content)

    def test(self, number: int, test: PolicyTest) -> ReadyTest | None:
        """Return a test that can run; None if there are findings."""
        before, place = len(self.findings), ("tests", number)
        targets = self._targets(test, place)
        if not targets:
            return None
        names = SeriesNames(targets, test.loads, self._of_queries)
        series, generated = self._series(test, place, names)
        interval = test.interval or self._model.interval or min(one.sync_period for one in targets)
        duration = _duration(test, interval)
        self._check(test, place, targets, duration)
        never = tuple(
            (where, one)
            for where, one in (("never", self._model.never), (f"tests[{number}].never", test.never))
            if one is not None
        )
        if not never and not test.expect:
            self._find(place, "expects nothing: write `expect`, or `never`")
        if test.random is not None and not never:
            self._find((*place, "random"), "goes with `never`: what must hold for any series")
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
            generated,
            self._faulty(test, place, names),
        )
        if len(self.findings) == before:
            try:
                built_targets(ready, (*series, *generated))
            except BuildError as error:
                self._find((*place, "loads"), str(error))
        return ready if len(self.findings) == before else None

    def _find(self, location: Location, message: str, *, shown: bool = False) -> None:
        self.findings.append(Finding(location, message, show_value=shown))

    def _targets(self, test: PolicyTest, place: Location) -> tuple[Target, ...]:
        every = self._config.targets
        listed = ", ".join(target.key for target in every[:10]) or "none"
        if test.target is None:
            if len(every) == 1:
                return every
            message = f"is missing: the configuration has {len(every)} targets: {listed}"
            self._find((*place, "target"), message)
            return ()
        found = tuple(target for target in every if matches(target, test.target))
        if not found:
            message = f"is none of the configuration's targets; these are: {listed}"
            self._find((*place, "target"), message, shown=True)
        return found

    def _series(
        self, test: PolicyTest, place: Location, names: SeriesNames
    ) -> tuple[tuple[NamedSeries, ...], tuple[NamedSeries, ...]]:
        """Return the series that are stated, and those that are made up."""
        stated, generated = [], []
        for name, items in test.series.items():
            try:
                stated.append(names.series(name, items))
            except ValueError as error:
                self._find((*place, "series", name), str(error))
        for index, name in enumerate(() if test.random is None else test.random.series):
            at = (*place, "random", "series", index)
            try:
                generated.append(names.series(name))
            except ValueError as error:
                self._find(at, str(error), shown=True)
            if name in test.series:
                self._find(at, "stands in `series` too: leave it out there", shown=True)
        read = {reader for one in (*stated, *generated) for reader in one.readers}
        lacking = dict.fromkeys(
            name for reader, name in names.metrics.items() if reader not in read
        )
        for name in lacking:
            message = f"says nothing of {name}: write its samples, or _ for none"
            self._find((*place, "series"), message)
        return tuple(stated), tuple(generated)

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

    def _check(
        self, test: PolicyTest, place: Location, targets: Sequence[Target], duration: float
    ) -> None:
        syncs = sum(math.floor(duration / target.sync_period) + 1 for target in targets)
        if syncs > MOST_SYNCS:
            message = f"takes {syncs:,} syncs, and may take {MOST_SYNCS:,}: let it be shorter"
            self._find(place, message)
        for index, event in enumerate(test.events):
            self._check_named(event.target, targets, (*place, "events", index))
            for key, message in _wrong_event(event, duration):
                self._find((*place, "events", index, *key), message)
        for index, expected in enumerate(test.expect):
            self._check_named(expected.target, targets, (*place, "expect", index))
            for key, message in _wrong_expectation(expected, duration):
                self._find((*place, "expect", index, *key), message)
        random = test.random
        if random is None:
            return
        low, high = random.between
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            message = "must be two numbers, the least and then the largest"
            self._find((*place, "random", "between"), message)
        if test.expect:
            message = "goes with series that are stated; of those made up only `never` can be said"
            self._find((*place, "expect"), message)

    def _check_named(self, pattern: str, targets: Sequence[Target], place: Location) -> None:
        if not any(matches(target, pattern) for target in targets):
            listed = ", ".join(target.key for target in targets[:10])
            message = f"is none of the test's targets; these are: {listed}"
            self._find((*place, "target"), message, shown=True)


def _duration(test: PolicyTest, interval: float) -> float:
    """Return how long a test runs, in seconds."""
    if test.duration is not None:
        return test.duration
    if test.random is not None:
        return _GENERATED_SECONDS
    ends = [one.to if one.at is None else one.at for one in test.expect]
    ends += [event.at + (event.for_ or 0.0) for event in test.events]
    ends += [(count_of(items) - 1) * interval for items in test.series.values()]
    return max((one for one in ends if one is not None), default=0.0)


_AT_ONCE = ("set_replicas", "restart", "lose_state", "takeover")
_PLACES = frozenset({"at", "from_", "to", "target", "for_", "by", "query"})
"""Fields that say of what, and when."""
_LASTING = tuple(
    name for name in WorldEvent.model_fields if name not in _PLACES and name not in _AT_ONCE
)
_FACTS = tuple(name for name in Expectation.model_fields if name not in _PLACES)
_Wrong = tuple[Location, str]


def _said(model: Expectation | WorldEvent | Never, names: Iterable[str]) -> list[str]:
    values = ((name, getattr(model, name)) for name in names)
    return [name for name, value in values if value is not None and value is not False]


def _keys(names: Iterable[str], of: type[Model]) -> str:
    return ", ".join(of.model_fields[name].alias or name for name in names)


def _wrong_event(event: WorldEvent, duration: float) -> Iterator[_Wrong]:
    lasting, at_once = _said(event, _LASTING), _said(event, _AT_ONCE)
    if not lasting and not at_once:
        yield (), f"says nothing: write one of {_keys((*_AT_ONCE, *_LASTING), WorldEvent)}"
    if event.for_ is not None and at_once:
        yield ("for",), f"does not go with {_keys(at_once, WorldEvent)}, which happens at once"
    if event.down and event.for_ is None:
        yield ("for",), "is missing: how long the daemon does not run"
    if event.query is not None and not (event.query_fails or event.partial):
        yield ("query",), "goes with queryFails or partial"
    if event.at > duration:
        yield ("at",), _after_the_end(duration)


def _wrong_expectation(expected: Expectation, duration: float) -> Iterator[_Wrong]:
    first, last = expected.from_, expected.to
    is_time = first is not None and last is not None
    if (expected.at is not None) == is_time or (first is None) != (last is None):
        yield (), "needs `at`, or both `from` and `to`"
    if first is not None and last is not None and first > last:
        yield ("to",), "is before `from`"
    if not _said(expected, _FACTS):
        yield (), f"expects nothing: write one of {_keys(_FACTS, Expectation)}"
    if expected.no_change and not is_time:
        yield ("noChange",), "goes with `from` and `to`"
    end = expected.at if last is None else last
    if end is not None and end > duration:
        yield ("at" if last is None else "to",), _after_the_end(duration)


def _after_the_end(duration: float) -> str:
    return f"is after the end: the test lasts {durations.format_seconds(duration)}"
