"""The limits of the size of a configuration."""

import textwrap
import tracemalloc
from pathlib import Path

import pytest

from autoscaler.config import ConfigError, load, reading, sources
from autoscaler.config.documents import (
    DEEPEST,
    LONGEST_TEXT,
    MOST_ALIASED,
    MOST_MEMORY,
    MOST_VALUES,
    Tally,
    read,
)
from autoscaler.config.problems import MOST_LOOKED_AT, MOST_PROBLEMS
from tests.config.documents import PROMETHEUS, QUERIES, REF, loaded, refused
from tests.config.test_refusal_cost import LARGE

BASE = textwrap.dedent("""\
    - &base
      namespace: shop
      maxReplicas: 3
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}
      metrics: [%s]
    """)
METRIC = "&m {type: External, external: {metric: {name: rps}, target: {type: Value, value: 1}}}"
WRONG = "&m {type: Extrnal, extrnal: {}}"
DUPLICATES = BASE.replace("&base", "") % METRIC.replace("&m", "")


def aliases(metric: str, metrics: int, targets: int) -> str:
    """Return a short document of so many targets with so many metrics each."""
    first = BASE % ", ".join([metric, *["*m"] * (metrics - 1)])
    rest = "".join(f"- {{<<: *base, namespace: n{number}}}\n" for number in range(targets - 1))
    return f"{PROMETHEUS}{QUERIES}targets:\n{first}{rest}"


def test_aliases_that_stand_for_too_much_are_refused_cheaply(tmp_path: Path) -> None:
    text = aliases(METRIC, 1000, 400)
    assert len(text) < 20_000
    tracemalloc.start()
    try:
        (problem,) = refused(tmp_path, text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert problem.line is not None
    assert problem.message == (
        f"aliases (*) stand for more than {MOST_ALIASED:,} keys and values; 10,000 large targets "
        "have 1,200,000; let them stand for smaller parts, or share the targets between two daemons"
    )
    assert peak < 20 * 2**20


def test_a_thousand_targets_may_share_the_metrics_of_one(tmp_path: Path) -> None:
    assert len(loaded(tmp_path, aliases(METRIC, 5, 1000)).targets) == 1000


def test_nested_aliases_count_as_their_values(tmp_path: Path) -> None:
    lines = [f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n" for number in range(1, 35)]
    (problem,) = refused(tmp_path, PROMETHEUS + "a0: &a0 [x]\n" + "".join(lines))
    assert problem.message == (
        "a target, or a key at the top, has more than 200,000 keys and values, with those that "
        "aliases (*) stand for; a large target has 120"
    )


def test_the_levels_of_aliases_add_up(tmp_path: Path) -> None:
    lines = [
        f"a{number}: &a{number} {'[' * 10}*a{number - 1}{']' * 10}\n"
        for number in range(1, DEEPEST // 10 + 1)
    ]
    (problem,) = refused(tmp_path, PROMETHEUS + "a0: &a0 [x]\n" + "".join(lines))
    assert problem.line == 6
    assert f"more than {DEEPEST} deep in one another" in problem.message


def test_the_length_of_a_text_is_limited(tmp_path: Path) -> None:
    longest = "x" * LONGEST_TEXT
    assert loaded(tmp_path, f"{PROMETHEUS}x-note: {longest}\n{QUERIES}targets: []\n").targets == ()
    for text in (f"queries: {{a: {longest}x}}", f'x-a: "{longest}x"', f'? "{longest}x"\n: 1'):
        (problem,) = refused(tmp_path, f"{PROMETHEUS}targets: []\n{text}\n")
        assert problem.message == "a key or a value has 65,537 characters, and may have 65,536"
        assert problem.line == 3


def test_the_number_of_values_is_limited_over_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.config.documents.MOST_VALUES", 1000)
    values = "targets: []\nqueries: {%s}\n"
    first, second = (
        ", ".join(f"{name}{number}: up" for number in range(300)) for name in ("main", "more")
    )
    (tmp_path / "more.yaml").write_text("targets: []\n")
    text = f"{PROMETHEUS}include: [more.yaml]\n{values % first}"
    loaded(tmp_path, text)
    (tmp_path / "more.yaml").write_text(values % second)
    (problem,) = refused(tmp_path, text)
    assert problem.file == str(tmp_path / "more.yaml")
    assert problem.message.startswith("the configuration has more than 1,000 keys and values")


def test_ten_thousand_large_targets_have_room() -> None:
    """The figures of the messages: 25 lines of a target have 120 keys and values, and 1 kB."""
    assert MOST_VALUES >= 2 * 10_000 * 120
    assert MOST_ALIASED >= 10_000 * 120
    assert reading.MOST_OF_A_FILE >= 1.5 * 10_000 * 1000
    assert reading.MOST_OF_ALL >= 2 * 10_000 * 1000
    tally = Tally()
    read("".join(LARGE % number for number in range(1000)), lambda *_: None, tally)
    assert 10 * tally.memory <= 58 * 2**20 <= 0.85 * MOST_MEMORY


@pytest.mark.parametrize("name", ["autoscaler.yaml", "more.yaml"])
def test_a_file_of_gigabytes_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "more.yaml").write_text("targets: []\n")
    (tmp_path / "autoscaler.yaml").write_text(PROMETHEUS + "include: [more.yaml]\n")
    with (tmp_path / name).open("r+b") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "autoscaler.yaml")
    assert str(caught.value) == (
        f"{tmp_path}/{name}: the file has more than 16 MiB; `include` lets targets stand in "
        "several files"
    )


def test_the_size_of_all_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_OF_ALL", 2**20)
    for name in "ab":
        (tmp_path / f"{name}.yml").write_text("targets: []\n#" + "x" * 600_000)
    (problem,) = refused(tmp_path, PROMETHEUS + "include: ['*.yml']\n")
    assert problem.file == str(tmp_path / "b.yml")
    assert problem.message == "with this file a configuration has more than 1 MiB; leave out some"


def test_the_number_of_files_and_of_entries_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_FILES", 3)
    monkeypatch.setattr("autoscaler.config.loading.MOST_FILES", 3)
    for name in "abcd":
        (tmp_path / f"{name}.yml").write_text("targets: []\n")
    loaded(tmp_path, PROMETHEUS + "include: [a.yml, b.yml, c.yml]\n")
    (problem,) = refused(tmp_path, PROMETHEUS + "include: ['*.yml']\n")
    assert problem.path == "include[0]"
    assert problem.message == "matches more than 3 files; put several targets into one"
    (problem,) = refused(tmp_path, PROMETHEUS + "include: [a.yml, b.yml, c.yml, d.yml]\n")
    assert problem.path == "include"
    assert problem.message.startswith("has more than 3 entries; a pattern such as targets.d/*.yaml")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (aliases(WRONG, 250, 100), f"more than {MOST_LOOKED_AT:,}"),
        (f"{PROMETHEUS}targets: [{'x, ' * 50_000}]\n", f"more than {MOST_LOOKED_AT:,}"),
        (
            f"{PROMETHEUS}targets: []\nqueries: {{{'a: 1, ' * 50_000}}}\n",
            f"more than {MOST_LOOKED_AT:,}",
        ),
        (f"{PROMETHEUS}{QUERIES}targets:\n{DUPLICATES * 1000}", "999"),
    ],
    ids=["aliases", "entries", "keys", "duplicates"],
)
def test_a_hundred_of_very_many_mistakes_are_reported(
    tmp_path: Path, text: str, count: str
) -> None:
    problems = refused(tmp_path, text)
    assert len(problems) == MOST_PROBLEMS + 1
    assert all(problem.line for problem in problems[:-1])
    assert str(problems[-1]) == (
        f"{tmp_path}/autoscaler.yaml: these are 100 of {count} mistakes, of each kind the first; "
        "mend these first"
    )
    assert sum(len(str(problem)) for problem in problems) < 100_000


def test_no_kind_of_mistake_hides_another(tmp_path: Path) -> None:
    row = f"- {{namespace: n%d, maxReplicas: 0, {REF.strip()}}}\n"
    queries = "".join(f"  q{number}: 5\n" for number in range(150))
    rows = "".join(row % number for number in range(5000))
    text = f"{PROMETHEUS}queries:\n{queries}targets:\n{rows}syncPeriod: 15\n"
    problems = refused(tmp_path, text)
    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-2].path == "syncPeriod"
    assert {problem.kind for problem in problems[:-2]} == {
        ("queries.*", "must be"),
        ("targets[].maxReplicas", "must be"),
    }
    lines = [problem.line or 0 for problem in problems[:-1]]
    assert lines == sorted(lines)
    assert "100 of 5,151 mistakes" in problems[-1].message


def test_too_many_mistakes_in_one_part_are_only_counted(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, f"{PROMETHEUS}targets:\n{BASE % ('x, ' * 20_000)}")
    assert problem.path == "targets[0]"
    assert problem.message == "there are 20,000 mistakes in this, too many to tell them"


def test_a_long_name_makes_no_long_message(tmp_path: Path) -> None:
    for text in (f"{'k' * 10**6}: 1\n", f"queries: {{{'k' * 10**6}: 1}}\n"):
        assert len(str(ConfigError(refused(tmp_path, PROMETHEUS + text)))) < 5000


def test_merged_keys_cost_what_they_hold(tmp_path: Path) -> None:
    keys = ", ".join(f"k{number}: 1" for number in range(10_000))
    merges = "<<: *x, " * 5_000 + f"<<: [{'*x, ' * 5_000}]"
    text = f"{PROMETHEUS}queries: &x {{}}\ntargets: [{{{keys}, {merges}}}]\n"
    problems = refused(tmp_path, text)
    assert "there are 10,003 mistakes" in problems[0].message
