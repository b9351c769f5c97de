"""A file of policy tests is read whole, or refused with every mistake at its line."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from pathlib import Path
from typing import get_args

import pytest

from autoscaler import core
from autoscaler.config import ConfigError
from autoscaler.config.documents import read
from autoscaler.core import contention, decision, status
from autoscaler.core.classification import State
from autoscaler.core.spec import SOURCES
from autoscaler.core.target import QueryKey
from autoscaler.lab.policy_tests.loading import EVENTS, load_tests
from autoscaler.lab.policy_tests.settings import TESTS, LimitReason, StateName
from autoscaler.lab.series_notation import Ramp
from tests.config.schemas import validator
from tests.narrowing import known
from tests.policy_tests.files import QUEUE, WEB, loaded, mistakes, written
from tests.tables import rows

LINES = QUEUE.count("\n")
EXAMPLES = sorted((Path(__file__).parents[2] / "config" / "policy-tests").glob("*.yaml"))
EXPECT = "expect: [{at: 0s, replicas: 1}]"


def one_test(test: str) -> str:
    return "tests:\n- name: a\n" + textwrap.indent(textwrap.dedent(test).strip(), "  ") + "\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../autoscaler-tests.schema.json\n")
    assert load_tests(path).tests
    document = read(text, lambda *_: None)
    assert list(validator(TESTS).iter_errors(document)) == []


def test_the_schema_has_the_reasons_and_states_of_decisions() -> None:
    of_rates = {decision.SCALE_UP_LIMIT, decision.SCALE_DOWN_LIMIT}
    of_bounds = {decision.TOO_FEW, decision.TOO_MANY}
    of_windows = {decision.SCALE_UP_STABILIZED, decision.SCALE_DOWN_STABILIZED}
    others = {status.SCALING_PAUSED, contention.REPLICAS_CONTESTED, "nothing"}
    expected = of_rates | of_bounds | of_windows | others | status.OWN_LIMITS
    assert set(get_args(LimitReason)) == expected
    assert set(get_args(StateName)) == {each.value for each in State} - {"shadow", "unknown"}


@pytest.mark.parametrize(
    ("expected", "key", "right"),
    [
        ("event: SuccesfulRescale", "event", "`SuccessfulRescale`?"),
        ("event: Paused", "event", "AmbiguousSelector, "),
        ("event: successfulrescale", "event", "`SuccessfulRescale`?"),
        ("conditions: {AbleToScal: 'True'}", "conditions.AbleToScal", "`AbleToScale`?"),
        ("conditions: {Ready: 'True'}", "conditions.Ready", "AbleToScale, Fallback, "),
    ],
)
@pytest.mark.parametrize("when", ["at: 0s", "from: 0s, to: 15s"])
def test_events_and_conditions_that_no_sync_has_are_refused(
    when: str, expected: str, key: str, right: str, tmp_path: Path
) -> None:
    text = one_test(f"series: {{queue: 1x2}}\nexpect: [{{{when}, {expected}}}]")
    (found,) = mistakes(tmp_path, text)
    assert found.path == f"tests[0].expect[0].{key}"
    assert right in found.message


def test_the_schema_has_the_events_of_the_core() -> None:
    constants, reported = set[object](), set[object]()
    for module in pkgutil.iter_modules(core.__path__, f"{core.__name__}."):
        loaded_module = importlib.import_module(module.name)
        for node in ast.walk(ast.parse(inspect.getsource(loaded_module))):
            if isinstance(node, ast.Constant):
                constants.add(node.value)
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                number = {"warn": 0, "note": 0, "Event": 1}.get(name, len(node.args))
                for argument in node.args[number : number + 1]:
                    if isinstance(argument, ast.Constant):
                        reported.add(argument.value)
                    elif isinstance(argument, ast.Name) and argument.id.isupper():
                        reported.add(getattr(loaded_module, argument.id))
    of_metrics = {f"FailedGet{kind}Metric" for kind in SOURCES}
    assert {"SuccessfulRescale", "FallbackEnded", "ReplicasContested"} <= reported <= {*EVENTS}
    assert {*EVENTS} - of_metrics <= constants


@pytest.mark.parametrize("name", ["a\\0b", "~nobody-at-all/x", "~nobody-at-all"])
def test_an_impossible_name_of_a_configuration_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tests.yaml"
    path.write_text(f'config: "{name}"\n' + one_test(EXPECT))
    with pytest.raises(ConfigError) as caught:
        load_tests(path)
    assert len(caught.value.problems) == 1


def test_the_configuration_is_in_another_file_or_in_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    config = "prometheus: {url: http://p:9090, bearerTokenFile: /not/there}\n" + QUEUE
    (tmp_path / "autoscaler.yaml").write_text(config)
    test = one_test(f"series: {{queue: 1}}\n{EXPECT}")
    (tmp_path / "a" / "tests.yaml").write_text(f"config: ../autoscaler.yaml\n{test}")
    named = load_tests(tmp_path / "a" / "tests.yaml")
    assert tmp_path / "autoscaler.yaml" in {path.resolve() for path in named.config.sources.digests}
    beside = loaded(tmp_path, test)
    assert [target.key for target in named.config.targets] == ["shop/Deployment/worker"]
    assert named.config.targets == beside.config.targets


def test_a_series_is_read_as_text(tmp_path: Path) -> None:
    """0x10 is eleven zeros, though YAML reads it as 16; a number is a series too."""
    for text, expected in (
        ("0x10", [0.0] * 11),
        ("16", [16.0]),
        ("1e2", [100.0]),
        ("_", []),
        ("'2x1'", [2.0, 2.0]),
    ):
        (test,) = loaded(tmp_path, one_test(f"series: {{queue: {text}}}\n{EXPECT}")).tests
        found = [item for series in test.series for item in series.items]
        ramps = [item for item in found if isinstance(item, Ramp)]
        values = [item.value for item in ramps for _ in range(item.times + 1)]
        assert values == expected, text


@pytest.mark.parametrize(
    ("name", "replicas", "pods"),
    [
        ('rps{pod="apx-1"}', 2, "web-0, web-1"),
        ('rps{pod="web-01"}', 1, "web-0"),
        ('rps{pod="web-"}', 1, "web-0"),
        ('rps{pod="web-0", namespace="other"}', 1, "web-0"),
        ('rps{zone="a"}', 0, "none"),
        ('rps{pod="web"}', 12, ", ".join(f"web-{number}" for number in range(10)) + " and 2 more"),
    ],
)
def test_a_series_of_no_pod_is_refused(name: str, replicas: int, pods: str, tmp_path: Path) -> None:
    start = f"start: {{replicas: {replicas}}}"
    (found,) = mistakes(tmp_path, one_test(f"{start}\nseries:\n  {name}: 1\n{EXPECT}"), WEB)
    assert (found.line, found.path) == (WEB.count("\n") + 5, f'tests[0].series["{name}"]')
    assert found.message.endswith(f": {pods}")


def test_a_series_of_a_pod_that_may_be_created_is_accepted(tmp_path: Path) -> None:
    for series in ('rps{pod="web-7"}: 1', 'rps{pod="web-0", namespace="shop"}: 1'):
        assert not mistakes(tmp_path, one_test(f"series:\n  {series}\n{EXPECT}"), WEB)
    shared = "loads: [{metric: rps, model: shared}]"
    text = one_test(f'{shared}\nseries:\n  rps{{pod="old-1"}}: 1\n{EXPECT}')
    assert not mistakes(tmp_path, text, WEB)
    assert not mistakes(tmp_path, one_test(f'series:\n  queue{{pod="apx-1"}}: 1\n{EXPECT}'))


def test_a_series_is_named_by_query_metric_or_promql(tmp_path: Path) -> None:
    for name in ("queue", "sum(queue_length)", "'queue{a=\"b\"}'"):
        (test,) = loaded(tmp_path, one_test(f"series: {{{name}: 1}}\n{EXPECT}")).tests
        (series,) = test.series
        assert series.readers == (("shop/Deployment/worker", 0),)
        assert series.labels == ({"a": "b"} if "{" in name else None)


def test_queries_of_bounds_and_holds_have_series(tmp_path: Path) -> None:
    config = QUEUE + "  maxReplicasQuery: max(m)\n  holdScaleDownQuery: {name: freeze}\n"
    config = config.replace("queries: {", "queries: {freeze: up == 0, ")
    series = "series: {queue: 1, maxReplicasQuery: 5, freeze: 1}"
    (test,) = loaded(tmp_path, one_test(f"{series}\n{EXPECT}"), config).tests
    readers = {each.name: each.readers for each in test.series}
    assert readers["maxReplicasQuery"] == (QueryKey("", "max(m)"),)
    assert readers["freeze"] == (QueryKey("", "up == 0"),)
    (lacking,) = mistakes(tmp_path, one_test(f"series: {{queue: 1}}\n{EXPECT}"), config)
    assert lacking.path == "tests[0].series"
    assert "maxReplicasQuery" in lacking.message


MISTAKES = """
EXPECT | .series | queue
ONE | - | `expect`
series: {queue: 1, queu: 1}; EXPECT | .series.queu | `queue`?
series: {queue: 1 + 2}; EXPECT | .series.queue | '+'
series: {queue: ""}; EXPECT | .series.queue | empty
series: {queue: ' '}; EXPECT | .series.queue | empty
series: {queue: }; EXPECT | .series.queue | empty
series: {queue: [1]}; EXPECT | .series.queue | promtool
series: {'queue{a=b}': 1}; EXPECT | .series["queue{a=b}"] | labels
target: shop/nobody; ONE; EXPECT | .target | shop/Deployment/worker
ONE; expect: [{replicas: 1}] | .expect[0] | `at`
ONE; expect: [{from: 1s, replicas: 1}] | .expect[0] | `at`
ONE; expect: [{at: 1s, from: 0s, to: 2s, replicas: 1}] | .expect[0] | `at`
ONE; expect: [{from: 2s, to: 1s, replicas: 1}] | .expect[0].to | `from`
ONE; expect: [{at: 1s}] | .expect[0] | replicas
ONE; expect: [{at: 1s, noChange: true}] | .expect[0].noChange | `from`
ONE; duration: 1m; expect: [{at: 2m, replicas: 1}] | .expect[0].at | 1m
ONE; expect: [{at: 1s, limitedBy: ScaleUpLimi}] | .expect[0].limitedBy | ScaleUpLimit?
ONE; events: [{at: 1s}]; EXPECT | .events[0] | setReplicas
ONE; events: [{at: 1s, down: true}]; EXPECT | .events[0].for | missing
ONE; events: [{at: 1s, for: 1s, restart: true}]; EXPECT | .events[0].for | restart
ONE; events: [{at: 1s, query: queue, restart: true}]; EXPECT | .events[0].query | queryFails
ONE; events: [{at: 1s, query: q, partial: w}]; EXPECT | .events[0].query | queue
ONE; events: [{at: 1s, target: x, restart: true}]; EXPECT
    | .events[0].target | shop/Deployment/worker
ONE; duration: 30d; never: {above: 20} | - | 172,801
ONE; loads: [{metric: queue, model: queue}]; EXPECT | .loads | arrivals
start: {at: yesterday}; ONE; EXPECT | .start.at | 2026-01-05T00:00:00Z
ONE; loads: [{metric: qeue, model: shared}]; EXPECT | .loads[0].metric | queue
ONE; workloads: [{target: a/b, replicas: 1}]; EXPECT
    | .workloads[0].target | shop/Deployment/worker
ONE; start: {replicas: 100001}; EXPECT | .start.replicas | 100,000
serie: {queue: 1}; EXPECT | .serie | `series`?
"""


@pytest.mark.parametrize(("test", "path", "part"), rows(MISTAKES))
def test_a_mistake_is_reported_at_its_place(
    test: str, path: str, part: str, tmp_path: Path
) -> None:
    text = test.replace("; ", "\n").replace("ONE", "series: {queue: 1}").replace("EXPECT", EXPECT)
    found = mistakes(tmp_path, one_test(text))
    place = "tests[0]" + path.removeprefix("-")
    assert [part in each.message for each in found if each.path == place] == [True]
    assert all(known(each.line) > LINES for each in found)


def test_all_mistakes_of_tests_and_configuration_are_reported_at_once(tmp_path: Path) -> None:
    config = QUEUE.replace("maxReplicas: 20", "maxReplicas: none")
    tests = one_test("series: {queue: 1x}\nexpects: []\nexpect: [{at: 1}]")
    found = mistakes(tmp_path, f"intervall: 5s\n{tests}", config)
    assert [each.path for each in found] == [
        "intervall",
        "tests[0].series.queue",
        "tests[0].expects",
        "tests[0].expect[0].at",
        "targets[0].maxReplicas",
    ]


def test_a_file_names_or_contains_the_configuration(tmp_path: Path) -> None:
    test = one_test(f"series: {{queue: 1}}\n{EXPECT}")
    (found,) = mistakes(tmp_path, test, "")
    assert (found.path, "missing" in found.message) == ("config", True)
    (found,) = mistakes(tmp_path, f"config: a.yaml\n{test}")
    assert (found.path, "`config`" in found.message) == ("queries", True)
    with pytest.raises(ConfigError, match=r"a\.yaml"):
        loaded(tmp_path, f"config: a.yaml\n{test}", "")


def test_a_test_must_name_its_target_if_there_are_several(tmp_path: Path) -> None:
    second = WEB.partition("targets:\n")[2]
    config = QUEUE.replace("queries: {", "queries: {rps: r, ") + second
    (found,) = mistakes(tmp_path, one_test(f"series: {{queue: 1}}\n{EXPECT}"), config)
    assert found.path == "tests[0].target"
    assert "2 targets: shop/Deployment/worker, shop/Deployment/web" in found.message
    both = f"target: shop/*\nseries: {{queue: 1, rps: 1}}\n{EXPECT}"
    (test,) = loaded(tmp_path, one_test(both), config).tests
    assert len(test.targets) == 2


def test_a_test_lasts_until_its_last_expectation_or_event(tmp_path: Path) -> None:
    for more, seconds in (
        ("expect: [{at: 5m, replicas: 1}]", 300.0),
        ("expect: [{from: 0s, to: 8m, replicas: 1}]", 480.0),
        (f"{EXPECT}\nevents: [{{at: 6m, for: 1m, queryFails: x}}]", 420.0),
        (f"{EXPECT}\nduration: 2h", 7200.0),
        (EXPECT, 150.0),
    ):
        (test,) = loaded(tmp_path, one_test(f"series: {{queue: 1x10}}\n{more}")).tests
        assert test.duration == seconds, more
    (test,) = loaded(tmp_path, one_test("series: {queue: _x0}\nnever: {above: 9}")).tests
    assert test.duration == 0.0


def test_the_interval_is_that_of_the_test_the_file_or_the_configuration(tmp_path: Path) -> None:
    series = f"series: {{queue: 1}}\n{EXPECT}"
    for top, own, seconds in (("", "", 20.0), ("interval: 5s\n", "", 5.0), ("", "interval: 7s", 7)):
        text = top + one_test(f"{series}\n{own}")
        (test,) = loaded(tmp_path, text, f"syncPeriod: 20s\n{QUEUE}").tests
        assert test.interval == seconds


def test_an_empty_file_is_refused_with_the_keys_it_needs(tmp_path: Path) -> None:
    for text in ("", "- a\n"):
        path = written(tmp_path, text, "")
        with pytest.raises(ConfigError, match="`tests`, and `config` or `targets`"):
            load_tests(path)
