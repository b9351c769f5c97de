"""A report of replays, without a browser: what it has, and how large it is."""

import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from autoscaler.cli.output import CommandError
from autoscaler.lab.options import ReportOptions
from autoscaler.lab.rendering import MEASURES, ReplayAnswer, answer_of, measure_text
from autoscaler.lab.report_page import refuse_to_overwrite, report_of, write_report
from tests.replay.fleets import replayed, with_lines
from tests.web.pages.reading import Parsed


def without_scripts(answers: Mapping[str, ReplayAnswer]) -> Parsed:
    """Return a report without its scripts and styles."""
    text = report_of(answers, "t")
    return Parsed(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL))


def with_changes(answer: ReplayAnswer, changes: int, **facts: object) -> ReplayAnswer:
    """Return an answer whose only target has this number of changes, and other facts."""
    (target,) = answer.targets
    measures = target.measures.model_copy(update={"changes": changes})
    changed = target.model_copy(update={"measures": measures, **facts})
    return answer.model_copy(update={"targets": (changed,)})


def test_a_report_loads_nothing_from_elsewhere() -> None:
    text = report_of({"simulated": answer_of(replayed(2))}, "<b>A title</b>")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert not re.search(r"(src|href)=\"(?!#)", text)
    assert "import " not in re.sub(r"important |importa", "", text.split('type="module"')[1])
    assert "<b>A title" not in text


def test_a_report_has_all_numbers_without_scripts() -> None:
    answer = answer_of(replayed(2))
    text = without_scripts({"a": answer}).find("main")[0].words
    for target in answer.targets:
        assert target.target in text
        assert target.assumed[0] in text
        assert target.changes[0].text in text
        assert target.reasons[0].text in text
    for measure in MEASURES[:8]:
        assert measure.heading in text
        assert measure.meaning in text
    assert "actual" in text


def test_each_of_several_replays_has_its_column() -> None:
    answer = answer_of(replayed(3))
    text = report_of({"now": answer, "then": answer}, "t")
    assert text.count('<th role="columnheader" scope="col" class="number">then</th>') == 3
    assert text.count('<a href="#target-') == 3


@pytest.mark.parametrize(("changes", "marked"), [(0, 0), (1, 1), (100, 1), (101, 0), (5000, 0)])
def test_few_changes_are_marked_in_the_chart(changes: int, marked: int) -> None:
    page = without_scripts({"a": with_changes(answer_of(replayed(1)), changes)})
    (chart,) = page.find("div", class_="replay-chart")
    assert ("data-changes" in chart.attributes) == marked
    assert len(page.find("span", class_="swatch triangle")) == marked


def test_a_count_of_one_is_singular() -> None:
    answer = with_changes(with_lines((0,)), 1, last_replicas=1)
    text = report_of({"a": answer}, "one")
    assert re.search(r"→ 1 replica\b(?!s)", text)
    assert answer.targets[0].changes == () or "<summary>1 change" in text


@pytest.mark.parametrize(
    ("hours", "text"), [(0.004, "0.00"), (9.987, "9.99"), (10.04, "10.0"), (1234.56, "1234.6")]
)
def test_few_hours_have_two_digits(hours: float, text: str) -> None:
    (measure,) = (known for known in MEASURES if known.field == "replica_hours")
    assert measure_text(measure, hours) == text


def test_an_existing_file_is_replaced_only_if_forced(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("mine")
    with pytest.raises(CommandError, match=f"{file.name}.*--force"):
        refuse_to_overwrite(ReportOptions(file))
    options = ReportOptions(file, force=True)
    refuse_to_overwrite(options)
    write_report({"simulated": answer_of(replayed(1))}, "t", options)
    assert file.read_text().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.slow
def test_the_size_of_a_report_is_bounded() -> None:
    """A hundred targets of a thousand parts each are a file of some MB, made in seconds."""
    answer = answer_of(replayed(20, 1000))
    targets = tuple(
        target.model_copy(update={"target": f"{target.target}-{number}"})
        for number in range(5)
        for target in answer.targets
    )
    begun = time.process_time()
    text = report_of({"simulated": answer.model_copy(update={"targets": targets})}, "t")
    assert {len(target.lines.times) for target in targets} == {1000}
    assert len(text) < 10_000_000
    assert time.process_time() - begun < 10
