"""Reads a file of policy tests and the configuration that it tests, or refuses it whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.cli.asked_queries import named_queries
from autoscaler.config import Config, ConfigError, load
from autoscaler.config.documents import Location, Value
from autoscaler.config.fields import absolute
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.models import fields_by_key
from autoscaler.config.problems import Finding, Problem, below
from autoscaler.config.settings import KEYS, Sources
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.building import BuildError, is_called
from autoscaler.lab.other_files import OtherFile, read_file
from autoscaler.lab.policy_tests.checks import listed, mistakes_of, of_no_pod
from autoscaler.lab.policy_tests.running import built_targets
from autoscaler.lab.policy_tests.series_names import NamedSeries, ReadyTest, SeriesNames
from autoscaler.lab.policy_tests.settings import PolicyTest, PolicyTests
from autoscaler.lab.series_notation import count_of

_FORM = "a file of policy tests is a mapping with `tests`, and `config` or `targets`"
_OWN_KEYS = frozenset(fields_by_key(PolicyTests))
_SERVER: Mapping[str, Value] = {"prometheus": {"url": "http://127.0.0.1:9090"}}
"""Nobody asks it; a configuration names one."""


@dataclass(frozen=True)
class PolicyTestFile:
    """A file of tests that can run."""

    source: OtherFile
    config: Config
    content: bytes | None
    """That of the configuration, where it stands in the same file."""
    tests: tuple[ReadyTest, ...]

    def line(self, location: Location) -> int:
        """Return the line of a place in it."""
        return self.source.places[location].line


def load_tests(path: Path) -> PolicyTestFile:
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
        sources = config.sources
    except ConfigError as error:
        refused += [one for one in error.problems if one not in refused]
        sources = error.sources
    if model is None or config is None or refused:
        raise ConfigError(refused, sources)
    ready = _Preparing(model, config, content)
    tests = tuple(ready.test(number, one) for number, one in enumerate(model.tests))
    try:
        source.refuse(ready.findings)
    except ConfigError as error:
        raise ConfigError(error.problems, sources) from None
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
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = source.places["tests", number, "series", name].plain
            texts[name] = written or str(value)
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
    return {**_SERVER, **{key: one for key, one in given.items() if key in KEYS}}


class _Preparing:
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
        interval = test.interval or self._model.interval or min(one.sync_period for one in targets)
        duration = _duration(test, interval)
        found = mistakes_of(test, targets, duration)
        self.findings += (below(place, one) for one in found)
        never = tuple(
            (where, one)
            for where, one in (("never", self._model.never), (f"tests[{number}].never", test.never))
            if one is not None
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
        found = of_no_pod(ready, [one.target for one in targets])
        self.findings += (below(place, one) for one in found)

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
            message = f"is none of the configuration's targets; these are: {listed(every)}"
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
        read = {reader for one in stated for reader in one.readers}
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
    ends = [one.to if one.at is None else one.at for one in test.expect]
    ends += [event.at + (event.for_ or 0.0) for event in test.events]
    ends += [(count_of(items) - 1) * interval for items in test.series.values()]
    return max((0.0, *(one for one in ends if one is not None)))
