"""A report of replays, without a browser: what it has, and how large it is."""

import re
import time
from pathlib import Path

import pytest

from autoscaler.cli.output import CommandError
from autoscaler.lab.options import ReportOptions
from autoscaler.lab.rendering import MEASURES, answer_of, measure_text
from autoscaler.lab.report_page import (
    refuse_to_overwrite,
    report_of,
    write_report,
)
from tests.replay.fleets import replayed, with_lines
from tests.web.pages.reading import Parsed


def test_it_needs_nothing_from_elsewhere() -> None:
    """Its policy allows no network, no address is asked, and it says so before anything else."""
    text = report_of({"simulated": answer_of(replayed(2))}, "<b>A title</b>")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert not re.search(r"(src|href)=\"(?!#)", text)
    assert "import " not in re.sub(r"important |importa", "", text.split('type="module"')[1])
    assert "<b>A title" not in text


def test_it_has_all_without_scripts() -> None:
    """The measures with what they are, beside what actual; reasons, changes, assumptions."""
    answer = answer_of(replayed(2))
    page = Parsed(
        re.sub(r"<(script|style).*?</\1>", "", report_of({"a": answer}, "t"), flags=re.DOTALL)
    )
    text = " ".join(page.of("main")[0].text.split())
    for target in answer.targets:
        assert target.target in text
        assert target.assumed[0] in text
        assert target.changes[0].text in text
        assert target.reasons[0].text in text
    for measure in MEASURES[:8]:
        assert measure.heading in text
        assert measure.meaning in text
    assert "actual" in text


def test_of_several_replays_each_has_its_column() -> None:
    """And the index has each target once."""
    answer = answer_of(replayed(3))
    text = report_of({"now": answer, "then": answer}, "t")
    assert text.count('<th role="columnheader" scope="col" class="number">then</th>') == 3
    assert text.count('<a href="#target-') == 3


@pytest.mark.parametrize(("changes", "marked"), [(0, 0), (1, 1), (100, 1), (101, 0), (5000, 0)])
def test_few_changes_are_marked_in_the_chart(changes: int, marked: int) -> None:
    """More than a hundred would hide it; the list has them."""
    answer = answer_of(replayed(1))
    (target,) = answer.targets
    measures = target.measures.model_copy(update={"changes": changes})
    told = answer.model_copy(
        update={"targets": (target.model_copy(update={"measures": measures}),)}
    )
    page = Parsed(
        re.sub(r"<(script|style).*?</\1>", "", report_of({"a": told}, "t"), flags=re.DOTALL)
    )
    (chart,) = [
        outcome for outcome in page.of("div") if outcome.attributes.get("class") == "replay-chart"
    ]
    assert ("data-changes" in chart.attributes) == marked
    legend = [
        outcome
        for outcome in page.of("span")
        if outcome.attributes.get("class") == "swatch triangle"
    ]
    assert len(legend) == marked


def test_one_is_not_told_as_several() -> None:
    """A count of one, and one change."""
    answer = with_lines((0,))
    (target,) = answer.targets
    measures = target.measures.model_copy(update={"changes": 1})
    changed = target.model_copy(update={"last_replicas": 1, "measures": measures})
    text = report_of({"a": answer.model_copy(update={"targets": (changed,)})}, "one")
    assert re.search(r"→ 1 replica\b(?!s)", text)
    assert changed.changes == () or "<summary>1 change" in text


@pytest.mark.parametrize(
    ("hours", "text"), [(0.004, "0.00"), (9.987, "9.99"), (10.04, "10.0"), (1234.56, "1234.6")]
)
def test_few_hours_have_two_digits(hours: float, text: str) -> None:
    """So that small targets differ."""
    (measure,) = (item for item in MEASURES if item.field == "replica_hours")
    assert measure_text(measure, hours) == text


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """Unless it is asked for; then it is replaced in one step."""
    file = tmp_path / "report.html"
    file.write_text("mine")
    with pytest.raises(CommandError, match="is there already; --force writes over it"):
        refuse_to_overwrite(ReportOptions(file))
    options = ReportOptions(file, force=True)
    refuse_to_overwrite(options)
    write_report({"simulated": answer_of(replayed(1))}, "t", options)
    assert file.read_text().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.slow
def test_its_size_is_bounded() -> None:
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
