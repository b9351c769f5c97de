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
from tests.policy_tests.files import QUEUE, WEB, loaded, mistakes, written
from tests.tables import rows

LINES = QUEUE.count("\n")
EXAMPLES = sorted((Path(__file__).parents[2] / "config" / "policy-tests").glob("*.yaml"))
EXPECT = "expect: [{at: 0s, replicas: 1}]"


def one(test: str) -> str:
    return "tests:\n- name: a\n" + textwrap.indent(textwrap.dedent(test).strip(), "  ") + "\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../autoscaler-tests.schema.json\n")
    assert load_tests(path).tests
    document = read(text, lambda *_: None)
    assert list(validator(TESTS).iter_errors(document)) == []


def test_reasons_and_states_are_those_of_decisions() -> None:
    of_rates = {decision.SCALE_UP_LIMIT, decision.SCALE_DOWN_LIMIT}
    of_bounds = {decision.TOO_FEW, decision.TOO_MANY}
    of_windows = {decision.SCALE_UP_STABILIZED, decision.SCALE_DOWN_STABILIZED}
    others = {status.SCALING_PAUSED, contention.REPLICAS_CONTESTED, "nothing"}
    known = of_rates | of_bounds | of_windows | others | status.OWN_LIMITS
    assert set(get_args(LimitReason)) == known
    assert set(get_args(StateName)) == {each.value for each in State} - {"shadow", "unknown"}


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("event: SuccesfulRescale", "event: is not an event of a sync: did you mean `Successful"),
        ("event: Paused", "event: is not an event of a sync: known are AmbiguousSelector, "),
        ("event: successfulrescale", "did you mean `SuccessfulRescale`?"),
        ("conditions: {AbleToScal: 'True'}", "conditions.AbleToScal: is not a condition: did you"),
        ("conditions: {Ready: 'True'}", "known are AbleToScale, Fallback, ScalingActive, Scaling"),
    ],
)
@pytest.mark.parametrize("when", ["at: 0s", "from: 0s, to: 15s"])
def test_events_and_conditions_that_no_sync_has_are_refused(
    when: str, expected: str, message: str, tmp_path: Path
) -> None:
    text = one(f"series: {{queue: 1x2}}\nexpect: [{{{when}, {expected}}}]")
    (found,) = mistakes(tmp_path, text)
    assert message in found
    assert "tests[0].expect[0]" in found


def test_the_events_that_are_known_are_those_of_the_core() -> None:
    constants, told = set[object](), set[object]()
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
                        told.add(argument.value)
                    elif isinstance(argument, ast.Name) and argument.id.isupper():
                        told.add(getattr(loaded_module, argument.id))
    of_metrics = {f"FailedGet{kind}Metric" for kind in SOURCES}
    assert {"SuccessfulRescale", "FallbackEnded", "ReplicasContested"} <= told <= {*EVENTS}
    assert {*EVENTS} - of_metrics <= constants


@pytest.mark.parametrize("name", ["a\\0b", "~nobody-at-all/x", "~nobody-at-all"])
def test_a_configuration_of_an_impossible_name_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tests.yaml"
    path.write_text(f'config: "{name}"\n' + one(EXPECT))
    with pytest.raises(ConfigError) as caught:
        load_tests(path)
    assert len(caught.value.problems) == 1


def test_the_configuration_is_another_file_or_stands_beside_the_tests(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    config = "prometheus: {url: http://p:9090, bearerTokenFile: /not/there}\n" + QUEUE
    (tmp_path / "autoscaler.yaml").write_text(config)
    test = one(f"series: {{queue: 1}}\n{EXPECT}")
    (tmp_path / "a" / "tests.yaml").write_text(f"config: ../autoscaler.yaml\n{test}")
    named = load_tests(tmp_path / "a" / "tests.yaml")
    assert tmp_path / "autoscaler.yaml" in {path.resolve() for path in named.config.sources.digests}
    beside = loaded(tmp_path, test)
    assert [target.key for target in named.config.targets] == ["shop/Deployment/worker"]
    assert named.config.targets == beside.config.targets


def test_a_series_is_read_as_it_is_written(tmp_path: Path) -> None:
    """0x10 is eleven zeros, though YAML reads it as 16; a number is a series too."""
    for text, expected in (
        ("0x10", [0.0] * 11),
        ("16", [16.0]),
        ("1e2", [100.0]),
        ("_", []),
        ("'2x1'", [2.0, 2.0]),
    ):
        (test,) = loaded(tmp_path, one(f"series: {{queue: {text}}}\n{EXPECT}")).tests
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
    told = f"is of no pod of what is tested; at the begin these are: {pods}"
    start = f"start: {{replicas: {replicas}}}"
    found = mistakes(tmp_path, one(f"{start}\nseries:\n  {name}: 1\n{EXPECT}"), WEB)
    place = f'{WEB.count(chr(10)) + 5}: tests[0].series["{name}"]'
    assert found == [f"{place}: {told}"]


def test_a_series_of_a_pod_that_may_come_is_taken(tmp_path: Path) -> None:
    for series in ('rps{pod="web-7"}: 1', 'rps{pod="web-0", namespace="shop"}: 1'):
        assert not mistakes(tmp_path, one(f"series:\n  {series}\n{EXPECT}"), WEB)
    shared = "loads: [{metric: rps, model: shared}]"
    text = one(f'{shared}\nseries:\n  rps{{pod="old-1"}}: 1\n{EXPECT}')
    assert not mistakes(tmp_path, text, WEB)
    assert not mistakes(tmp_path, one(f'series:\n  queue{{pod="apx-1"}}: 1\n{EXPECT}'))


def test_a_series_is_named_by_query_metric_or_promql(tmp_path: Path) -> None:
    for name in ("queue", "sum(queue_length)", "'queue{a=\"b\"}'"):
        (test,) = loaded(tmp_path, one(f"series: {{{name}: 1}}\n{EXPECT}")).tests
        (series,) = test.series
        assert series.readers == (("shop/Deployment/worker", 0),)
        assert series.labels == ({"a": "b"} if "{" in name else None)


def test_bounds_and_holds_have_series_too(tmp_path: Path) -> None:
    config = QUEUE + "  maxReplicasQuery: max(m)\n  holdScaleDownQuery: {name: freeze}\n"
    config = config.replace("queries: {", "queries: {freeze: up == 0, ")
    series = "series: {queue: 1, maxReplicasQuery: 5, freeze: 1}"
    (test,) = loaded(tmp_path, one(f"{series}\n{EXPECT}"), config).tests
    readers = {each.name: each.readers for each in test.series}
    assert readers["maxReplicasQuery"] == (QueryKey("", "max(m)"),)
    assert readers["freeze"] == (QueryKey("", "up == 0"),)
    lacking = mistakes(tmp_path, one(f"series: {{queue: 1}}\n{EXPECT}"), config)
    assert len(lacking) == 1
    assert "says nothing of maxReplicasQuery: write its samples, or _ for none" in lacking[0]


MISTAKES = """
EXPECT | tests[0].series: says nothing of queue: write its samples, or _ for none
ONE | tests[0]: expects nothing: write `expect`, or `never`
series: {queue: 1, queu: 1}; EXPECT
    | series.queu: is not a query or metric of the tested targets: did you mean `queue`?
series: {queue: 1 + 2}; EXPECT
    | tests[0].series.queue: has '+', which promtool does not know: write numbers
series: {queue: ""}; EXPECT | series.queue: is empty: write _ for no sample
series: {queue: ' '}; EXPECT | series.queue: is empty: write _ for no sample
series: {queue: }; EXPECT | series.queue: is empty: write _ for no sample
series: {queue: [1]}; EXPECT | must be a series in promtool's notation, such as
series: {'queue{a=b}': 1}; EXPECT
    | has labels that cannot be read: write them as {pod="web-0", a="b"}
target: shop/nobody; ONE; EXPECT | is not a target of the configuration; known:
    shop/Deployment/worker (got "shop/nobody")
ONE; expect: [{replicas: 1}] | needs `at`, or both `from` and `to`
ONE; expect: [{from: 1s, replicas: 1}] | needs `at`, or both
ONE; expect: [{at: 1s, from: 0s, to: 2s, replicas: 1}] | needs `at`, or both
ONE; expect: [{from: 2s, to: 1s, replicas: 1}] | is before `from`
ONE; expect: [{at: 1s}] | expects nothing: write one of replicas
ONE; expect: [{at: 1s, noChange: true}] | goes with `from` and `to`
ONE; duration: 1m; expect: [{at: 2m, replicas: 1}]
    | tests[0].expect[0].at: is after the end: the test lasts 1m
ONE; expect: [{at: 1s, limitedBy: ScaleUpLimi}] | or nothing; did you mean ScaleUpLimit?
ONE; events: [{at: 1s}]; EXPECT | says nothing: write one of
ONE; events: [{at: 1s, down: true}]; EXPECT
    | events[0].for: is missing: how long the daemon does not run
ONE; events: [{at: 1s, for: 1s, restart: true}]; EXPECT
    | does not go with restart, which happens at once
ONE; events: [{at: 1s, query: queue, restart: true}]; EXPECT | goes with queryFails or partial
ONE; events: [{at: 1s, query: q, partial: w}]; EXPECT | events[0].query: is not a query or metric
ONE; events: [{at: 1s, target: x, restart: true}]; EXPECT
    | is not a target of the test; known: shop/Deployment/worker
ONE; duration: 30d; never: {above: 20} | takes 172,801 syncs, and may take 20,000: let it be shorter
ONE; loads: [{metric: queue, model: queue}]; EXPECT
    | the metric queue cannot be a queue: state arrivals
start: {at: yesterday}; ONE; EXPECT | must be an instant such as
ONE; loads: [{metric: qeue, model: shared}]; EXPECT
    | loads[0].metric: is not a metric of the tested targets; known: queue (got "qeue")
ONE; workloads: [{target: a/b, replicas: 1}]; EXPECT
    | workloads[0].target: is not a target of the test; known: shop/Deployment/worker
ONE; start: {replicas: 100001}; EXPECT
    | start.replicas: is 100,001 replicas, and a test may have 100,000
serie: {queue: 1}; EXPECT | tests[0].serie: is not known here: did you mean
"""


@pytest.mark.parametrize(("test", "mistake"), rows(MISTAKES))
def test_a_mistake_is_told_at_its_place(test: str, mistake: str, tmp_path: Path) -> None:
    text = test.replace("; ", "\n").replace("ONE", "series: {queue: 1}").replace("EXPECT", EXPECT)
    found = mistakes(tmp_path, one(text))
    assert any(mistake in each for each in found), found
    assert all(int(each.partition(":")[0]) > LINES for each in found)


def test_all_mistakes_of_tests_and_configuration_are_told_at_once(tmp_path: Path) -> None:
    config = QUEUE.replace("maxReplicas: 20", "maxReplicas: none")
    tests = one("series: {queue: 1x}\nexpects: []\nexpect: [{at: 1}]")
    found = mistakes(tmp_path, f"intervall: 5s\n{tests}", config)
    assert [each.split(": ")[1] for each in found] == [
        "intervall",
        "tests[0].series.queue",
        "tests[0].expects",
        "tests[0].expect[0].at",
        "targets[0].maxReplicas",
    ]


def test_a_file_says_what_it_tests(tmp_path: Path) -> None:
    test = one(f"series: {{queue: 1}}\n{EXPECT}")
    (found,) = mistakes(tmp_path, test, "")
    assert "config: is missing: the configuration that is tested" in found
    (found,) = mistakes(tmp_path, f"config: a.yaml\n{test}")
    assert "queries: cannot be used with `config`; keep one" in found
    with pytest.raises(ConfigError, match=r"a\.yaml: there is no such file"):
        loaded(tmp_path, f"config: a.yaml\n{test}", "")


def test_of_several_targets_the_test_names_one(tmp_path: Path) -> None:
    second = WEB.partition("targets:\n")[2]
    config = QUEUE.replace("queries: {", "queries: {rps: r, ") + second
    (found,) = mistakes(tmp_path, one(f"series: {{queue: 1}}\n{EXPECT}"), config)
    listed = "2 targets: shop/Deployment/worker, shop/Deployment/web"
    assert f"tests[0].target: is missing: the configuration has {listed}" in found
    both = f"target: shop/*\nseries: {{queue: 1, rps: 1}}\n{EXPECT}"
    (test,) = loaded(tmp_path, one(both), config).tests
    assert len(test.targets) == 2


def test_a_test_is_as_long_as_what_it_says(tmp_path: Path) -> None:
    for more, seconds in (
        ("expect: [{at: 5m, replicas: 1}]", 300.0),
        ("expect: [{from: 0s, to: 8m, replicas: 1}]", 480.0),
        (f"{EXPECT}\nevents: [{{at: 6m, for: 1m, queryFails: x}}]", 420.0),
        (f"{EXPECT}\nduration: 2h", 7200.0),
        (EXPECT, 150.0),
    ):
        (test,) = loaded(tmp_path, one(f"series: {{queue: 1x10}}\n{more}")).tests
        assert test.duration == seconds, more
    (test,) = loaded(tmp_path, one("series: {queue: _x0}\nnever: {above: 9}")).tests
    assert test.duration == 0.0


def test_what_the_interval_is(tmp_path: Path) -> None:
    series = f"series: {{queue: 1}}\n{EXPECT}"
    for top, own, seconds in (("", "", 20.0), ("interval: 5s\n", "", 5.0), ("", "interval: 7s", 7)):
        text = top + one(f"{series}\n{own}")
        (test,) = loaded(tmp_path, text, f"syncPeriod: 20s\n{QUEUE}").tests
        assert test.interval == seconds


def test_an_empty_file_says_what_it_should_hold(tmp_path: Path) -> None:
    for text in ("", "- a\n"):
        path = written(tmp_path, text, "")
        with pytest.raises(
            ConfigError, match="is a mapping with `tests`, and `config` or `targets`"
        ):
            load_tests(path)
