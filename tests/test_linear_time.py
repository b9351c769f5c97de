"""The author of a text that is parsed here cannot keep the daemon busy with it.

Every regular expression of the package is found by itself and is given texts that are made from it;
every parser that reads a text of others is given these and some of its own.
"""

import ast
import importlib
import json
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import autoscaler
from autoscaler import quantities, schedules
from autoscaler.cli import times
from autoscaler.config import (
    documents,
    durations,
    fields,
    loading,
    promql,
    promql_parser,
)
from autoscaler.config.problems import ConfigError
from autoscaler.core import selectors
from autoscaler.core.text import printable
from autoscaler.lab.past import own_pods
from autoscaler.migrate import promql_answers
from autoscaler.migrate.go_text import GoRegex, Template
from autoscaler.migrate.keda.scaling_modifiers import promql_of
from autoscaler.migrate.keda.triggers import FormulaTrigger as Trigger
from autoscaler.transport import retries
from tests import hostile

UTC = ZoneInfo("UTC")
SHORT, LONG = 1_500, 6_000
_FREE_SECONDS = 0.01
"""CPU time that does not matter for any length; a quadratic pattern takes ten times as much."""
_MOST_GROWTH = 8.0
"""Of the time, from a text to one of four times its length: 4 if it is linear, 16 if quadratic."""


def seconds(run: Callable[[str], object], text: str) -> float:
    """Return the least CPU time of some runs in this thread; a parser may refuse the text."""

    def once() -> float:
        begin = time.thread_time()
        with suppress(ValueError):
            run(text)
        return time.thread_time() - begin

    first = once()
    return first if first < _FREE_SECONDS else min(first, once(), once())


def slow(run: Callable[[str], object], make: Callable[[int], Iterator[str]]) -> str:
    """Return the first text at which the time grows faster than the length, or nothing."""
    for short, long in zip(make(SHORT), make(LONG), strict=True):
        took = seconds(run, long)
        if took > _FREE_SECONDS and took > _MOST_GROWTH * seconds(run, short):
            return f"{took:.3f} s for {long[:60]!r} ... {long[-5:]!r}"
    return ""


@dataclass(frozen=True)
class Use:
    """A pattern, and the methods by which it is applied."""

    where: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


_METHODS = frozenset({"match", "fullmatch", "search", "sub", "findall", "finditer", "split"})


def modules() -> Iterator[ModuleType]:
    """Yield every module of the package but the demonstration, whose texts are its own."""
    for found in pkgutil.walk_packages(autoscaler.__path__, "autoscaler."):
        if not found.name.startswith(("autoscaler.demo", "autoscaler.__main__")):
            yield importlib.import_module(found.name)


def uses_of(module: ModuleType) -> Iterator[Use]:
    """Yield every pattern of a module; one that is not found by this reading fails the test."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    short = module.__name__.removeprefix("autoscaler.")
    applied: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(name), method) if name != "re" and method in _METHODS:
                applied.setdefault(name, set()).add(method)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        if node.func.attr in _METHODS:
            written = node.args[0]
            assert isinstance(written, ast.Constant), f"{short}:{node.lineno} hides its pattern"
            yield Use(
                f"{short}:{node.lineno}", re.compile(written.value), frozenset({node.func.attr})
            )
    for name, value in vars(module).items():
        if isinstance(value, re.Pattern):
            yield Use(f"{short}.{name}", value, frozenset(applied.get(name, ())))


def patterns() -> list[Use]:
    """Return every pattern of the package with its methods, also in other modules."""
    return [use for module in modules() for use in uses_of(module)]


@pytest.mark.parametrize("use", patterns(), ids=lambda use: use.where)
def test_a_regular_expression_takes_time_in_proportion_to_the_text(use: Use) -> None:
    of_bytes = isinstance(use.pattern.pattern, bytes)
    for method in sorted(use.methods):
        applied = getattr(use.pattern, method)

        def run(text: str, method: str = method, applied: Callable[..., Any] = applied) -> None:
            given = text.encode() if of_bytes else text
            if method == "sub":
                applied(given[:0], given)
            elif method == "finditer":
                for _ in applied(given):
                    pass
            else:
                applied(given)

        source = hostile.pattern_of(use.pattern)
        assert not slow(run, partial(hostile.texts, source)), f"{source!r}.{method}"


def forms() -> list[fields.Form]:
    """Return the forms of texts of a configuration, which are patterns too."""
    named = [value for module in modules() for value in vars(module).values()]
    parts = [part for value in named for part in (value, *getattr(value, "__metadata__", ()))]
    return list({id(part): part for part in parts if isinstance(part, fields.Form)}.values())


def written_forms() -> int:
    """Return how many forms the source has."""
    files = Path(autoscaler.__path__[0]).rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Form"
        for node in nodes
    )


def test_the_forms_of_a_configuration_take_time_in_proportion_to_the_text() -> None:
    """A name or an address of any length is refused or taken at once."""
    found = forms()
    assert len(found) == written_forms() > 5
    for form in found:
        source = str(form.schema["pattern"])
        assert not slow(form, partial(hostile.texts, source)), source


SELECTORS = ("a in (", "a in (b", "a in (b,", "!", "a", "a=", "a,", "a notin(", "a in (b),")
QUERIES = (
    "[1m:",
    '"',
    "'",
    "`",
    '\\"',
    "(",
    "[5m",
    "offset ",
    "offset 5m ",
    "#",
    "rate(x[5m:",
    "x[",
)
PATTERNS = ("(", "a", "(a", "(a)*", "[", "[a", "{1,2}", "|", "^", "\\Q", "(?", "$1", "${")
TEMPLATES = ("<<", "<<.", "<<if .", "<</*", '<<"', "<<(", "<<- ", "<<end>>", "<<.a>>", ">>", "- ")
TREES = (*QUERIES, "sum(", "sum by (a", "x{", 'x{a="b",', "a + ", "a or ", "-", "^ ")
NUMBERS = ("1", "0", ".", "1.", "+", "1e", "9e9", "-1", "1m", "1h", "0x1", "1_")
FORMULAS = (
    "a",
    "a + ",
    "a ^ ",
    "(",
    "[",
    "max(a, ",
    "a ? a : ",
    "-",
    "count([a], ",
    "1",
    "{#",
    "a.",
)
CRONS = ("*", "1,", "1-2,", "*/2,", "* ", "L", "mon,", "1-")
TIMES = ("1", "10m ", "monday ", "2026-01-", "12:", "ago ", "1 day ", "jan ")
_MATCHER = promql_parser.Matcher("pod", "=~", "web-.+")
PARSERS: list[tuple[str, Callable[[str], object], tuple[str, ...]]] = [
    ("selector", selectors.parse, SELECTORS),
    ("quantity", quantities.parse_quantity, NUMBERS),
    ("duration", durations.seconds_of, NUMBERS),
    ("promql-range", promql.range_of, QUERIES),
    ("promql-selectors", promql.selectors_of, QUERIES),
    ("own-pods", lambda text: own_pods.narrowed(text, _MATCHER), QUERIES),
    ("promql-condition", promql.is_condition, QUERIES),
    ("go-regex", GoRegex, PATTERNS),
    ("go-regex-search", GoRegex("(.*)(.*)b$").search, ("a", "b", "ab")),
    ("go-template", lambda text: Template(text).fill({"a": "b"}), TEMPLATES),
    ("promql-tree", promql_parser.parse, TREES),
    ("tidied-promql", promql_answers.tidied, TREES),
    ("keeping-a-label", lambda text: promql_answers.keeping(text, ["a"]), TREES),
    ("yaml-scalar", documents.scalar, NUMBERS),
    ("cron", lambda text: schedules.Cron(text, UTC), CRONS),
    ("cron-minute", lambda text: schedules.Cron(f"{text} * * * *", UTC), CRONS),
    ("keda-formula", lambda text: promql_of(text, {"a": Trigger("sum(a)")}), FORMULAS),
    ("keda-formula-query", lambda text: promql_of("a + a", {"a": Trigger(text)}), QUERIES),
    ("time-zone", schedules.time_zone, ("Europe/", "/", "..", "A")),
    ("address", fields.listen_address, ("a.", "a", ":", "[:", "1.")),
    ("time", lambda text: times.instant(text, 1.8e9), TIMES),
    ("Retry-After", lambda text: retries.retry_after({"Retry-After": text}), NUMBERS),
    ("line", printable, ("\0", " ", "a", "\u202e")),
]
"""What reads a text of others, with texts that it begins to read."""


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser[0])
def test_a_parser_takes_time_in_proportion_to_the_text(
    parser: tuple[str, Callable[[str], object], tuple[str, ...]],
) -> None:
    _, parse, parts = parser

    def made(length: int) -> Iterator[str]:
        for start in ("", *parts):
            for pump in (*parts, " ", "x", "\\"):
                yield f"{start}{pump * (length // len(pump))}\x01"

    assert not slow(parse, made)


PLACES = (
    "{0: 1}",
    "targets: [{namespace: %s}]",
    "targets: [{minReplicas: %s, maxReplicas: %s}]",
    "targets: [{scaleTargetRef: {apiVersion: %s, kind: %s, name: %s}}]",
    "targets: [{syncPeriod: %s, idle: {after: %s}, paused: %s, minReplicasQuery: %s}]",
    "targets: [{schedules: [{name: a, start: %s, end: %s, timezone: %s}]}]",
    (
        "targets: [{metrics: [{type: External, external: {metric: {name: %s, query: %s, "
        "selector: {matchLabels: {a: %s}}}, target: {type: AverageValue, averageValue: %s}}}]}]"
    ),
    "targets: [{metrics: [{type: %s, resource: {name: %s, target: {type: %s}}}]}]",
    "queries: {a: {query: %s, window: %s, maxAge: %s, labels: {pod: %s}, empty: %s, server: %s}}",
    "queries: {%s: up}",
    "%s: 1",
    "prometheus: {url: %s, timeout: %s, headers: {%s: %s}}",
    "listen: %s",
    "scaleDownBreaker: {share: %s}",
    "include: [%s]",
    "record: {maxSize: %s, maxAge: %s}",
    "tolerance: %s",
)


@pytest.mark.parametrize("place", PLACES)
def test_a_text_anywhere_in_a_configuration_is_read_in_proportion_to_it(
    place: str, tmp_path: Path
) -> None:
    file = tmp_path / "autoscaler.yaml"

    def load(text: str) -> None:
        quoted = json.dumps(text)
        file.write_text(place.replace("%s", quoted))
        with suppress(ConfigError):
            loading.load(file)

    def made(length: int) -> Iterator[str]:
        for pump in ("1", "0", "a", "1m", ".", "[1m:", "a.", " ", "é", "{{", "*,", "1 "):
            yield pump * (2 * length // len(pump)) + "x"

    assert not slow(load, made)
