"""Series that are made up find what breaks a rule, and are told short enough to be pasted."""

import random
import time
from pathlib import Path

from autoscaler.lab.policy_tests.expectations import unmet
from autoscaler.lab.policy_tests.generated import CounterExample, made_up, searched
from autoscaler.lab.policy_tests.running import PolicyTestRun, run
from autoscaler.lab.policy_tests.series_names import ReadyTest
from autoscaler.lab.series_notation import count_of, parse, samples_of, written
from tests.policy_tests.files import loaded

RANDOM = "random: {series: [queue], between: [0, 600], runs: 30, seed: 1}"


def ready(folder: Path, never: str, more: str = RANDOM) -> ReadyTest:
    (test,) = loaded(folder, f"tests:\n- name: a\n  never: {never}\n  {more}\n").tests
    return test


def search(test: ReadyTest) -> CounterExample | PolicyTestRun:
    assert test.model.random is not None
    return searched(test, test.model.random)


def test_what_holds_for_any_series_is_not_broken(tmp_path: Path) -> None:
    """The bounds of the target hold for all of them."""
    assert isinstance(search(ready(tmp_path, "{below: 1, above: 20}")), PolicyTestRun)


def test_what_breaks_a_rule_is_told_short(tmp_path: Path) -> None:
    """One sample of more than 240 is all that it takes for more than 8."""
    found = search(ready(tmp_path, "{above: 8}"))
    assert isinstance(found, CounterExample)
    (series,) = found.series
    assert len(series.items) <= 3
    assert found.unmet[0].expected == "never above 8"


def test_what_is_told_breaks_the_rule_when_it_is_pasted(tmp_path: Path) -> None:
    """Written instead of `random`, and for as long."""
    found = search(ready(tmp_path, "{changesPer10m: 3}"))
    assert isinstance(found, CounterExample)
    text = written(found.series[0].items)
    again = ready(tmp_path, "{changesPer10m: 3}", f"series: {{queue: {text}}}\n  duration: 1h")
    (first, *_) = unmet(run(again))
    assert (first.time, first.got) == (found.unmet[0].time, found.unmet[0].got)


def test_what_is_made_short_breaks_the_same_rule(tmp_path: Path) -> None:
    """Not another one, which is simpler to break."""
    found = search(ready(tmp_path, "{above: 12, changesPer10m: 2}"))
    assert isinstance(found, CounterExample)
    assert len({one.location for one in found.unmet}) == 1


def test_the_same_seed_makes_the_same_series(tmp_path: Path) -> None:
    """And another one others."""
    texts = [
        written(found.series[0].items)
        for seed in ("seed: 1", "seed: 1", "seed: 2")
        for found in [search(ready(tmp_path, "{above: 8}", RANDOM.replace("seed: 1", seed)))]
        if isinstance(found, CounterExample)
    ]
    assert texts[0] == texts[1]
    assert len(texts) == 3


def test_series_stay_within_their_bounds(tmp_path: Path) -> None:
    """They fill the test, and have gaps unless those are not wanted."""
    for gaps in ("true", "false"):
        more = f"random: {{series: [queue], between: [-5, 600], gaps: {gaps}}}"
        stated = ready(tmp_path, "{above: 8}", more).model.random
        assert stated is not None
        seen_gap = False
        for seed in range(40):
            items = parse(written(made_up(random.Random(seed), stated, 241)))  # noqa: S311 - no secret
            assert count_of(items) == 241
            values = samples_of(items).values
            seen_gap |= len(values) < 241 or None in values
            assert all(value is None or -5.1 <= value <= 600.1 for value in values)
        assert seen_gap is (gaps == "true")


def test_a_search_is_quick(tmp_path: Path) -> None:
    """A hundred tests of an hour take a few seconds."""
    test = ready(tmp_path, "{below: 1}", RANDOM.replace("runs: 30", "runs: 100"))
    begin = time.process_time()
    assert isinstance(search(test), PolicyTestRun)
    assert time.process_time() - begin < 8.0
