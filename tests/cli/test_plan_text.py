"""The text of `plan`: each failure is printed once, and every character of it."""

import io
import os
import sys
from dataclasses import replace
from typing import TypeAlias

import pytest

from autoscaler.cli.output import print_text
from autoscaler.cli.planning import paragraphs
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.spec import ExternalMetric
from autoscaler.core.target import Query, Target
from tests.narrowing import assert_parts, instance
from tests.rendering import test_extension_words as extended
from tests.worlds.memory import Memory, answer, external, sync_once
from tests.worlds.record import synced

REFUSED, AWAY = "p:9090 refused", "k:6443 is away"
Answers: TypeAlias = dict[str, QueryResult | QueryFailure]
A, B = external("shop", "a"), external("shop", "b")
EMPTY: Answers = {"queue": answer(), "rest": answer()}
KEYS = ["shop/Deployment/a", "shop/Deployment/b"]


def planned(answers: Answers, *targets: Target, away: str = "") -> list[str]:
    """Sync targets of two replicas once, by default `shop/a`; return the printed lines.

    Where the API server is ``away`` their scales cannot be read.
    """
    targets = targets or (A,)
    names = [target.spec.scale_target_ref.name for target in targets]
    scales: dict[str, Scale | ReadFailure] = {
        f"shop/{name}": ReadFailure(away) if away else Scale(2, 2, f"app={name}") for name in names
    }
    world = Memory(answers=answers, scales=scales)
    sync_once(world, *targets)
    return paragraphs(sorted(world.results, key=lambda result: result.target.key)).split("\n")


def two_metrics(name: str, second: str = "queue") -> Target:
    """Return a target of the metrics of two queries, `queue` and `rest`."""
    target = external("shop", name)
    (metric,) = target.spec.metrics
    metric = instance(ExternalMetric, metric)
    rest = replace(metric, metric=replace(metric.metric, name=second))
    spec = replace(target.spec, metrics=(metric, rest))
    return Target("shop", spec, (Query("queue"), Query("rest")))


@pytest.mark.parametrize("text", ["[/foo]", 'up{job=~"[a-z]+"}', "a:car:rate5m", "[red]x[/red]"])
def test_brackets_and_colons_of_a_failure_are_printed(text: str) -> None:
    """Markup would leave them out or draw them."""
    assert text in planned({"queue": QueryFailure(text)})[1]


def test_a_decision_has_a_line_of_counts_the_verdict_and_a_line_of_each_metric() -> None:
    head, reason, metric = planned({"queue": answer(600.0)})
    assert head == "shop/Deployment/a  2 -> 4"
    assert_parts(reason, "2 -> 4", "300/30", " 20", "4 per sync")
    assert_parts(metric, "  queue: 300/30", " 20 replicas")


def test_a_failure_of_one_target_is_printed_once() -> None:
    head, reason = planned({"queue": QueryFailure(REFUSED)})
    assert head == "shop/Deployment/a  2 -> 2"
    assert reason.endswith(f"queue: {REFUSED}")


def test_a_failure_of_many_targets_is_printed_once_with_their_names() -> None:
    answers: Answers = {"queue": QueryFailure(REFUSED), "rest": answer(90.0)}
    failure, count, *blocked, blank, head, reason, metric = planned(answers, A, B, two_metrics("c"))
    assert failure == f"failure 1: {REFUSED}"
    assert "2 targets" in count
    assert [line.strip().split(",")[0] for line in blocked] == KEYS
    assert all("2 replicas" in line for line in blocked)
    assert (blank, head) == ("", "shop/Deployment/c  2 -> 3")
    assert_parts(reason, "2 -> 3", "45/30", "queue: failure 1")
    assert_parts(metric, "  queue: 45/30", " 3 replicas")


def test_scales_that_cannot_be_read_are_one_failure_and_have_no_counts() -> None:
    failure, count, *blocked = planned({"queue": answer(90.0)}, A, B, away=AWAY)
    assert failure == f"failure 1: {AWAY}"
    assert "2 targets" in count
    assert [line.strip() for line in blocked] == KEYS


def test_failures_of_different_queries_are_not_one_failure() -> None:
    lines = planned(EMPTY, A, external("shop", "b", promql="rest"))
    assert "failure" not in "\n".join(lines)
    assert [line.split()[0] for line in lines if line.startswith("shop/")] == KEYS
    assert sum("no series" in line for line in lines) == 2


def test_a_second_metric_that_fails_has_its_own_line() -> None:
    head, reason, metric = planned(EMPTY, two_metrics("a", "rest"))
    assert head == "shop/Deployment/a  2 -> 2"
    assert_parts(reason, "queue: ", "no series", "1 more")
    assert_parts(metric, "  rest: ", "no series")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Be one."""
        return True


LONG = 'queue{queue="orders"}: a-long-name-that-nobody-breaks ' + "so " * 45


def test_a_terminal_wraps_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((60, 24)))
    print_text(f"shop/Deployment/a  2 -> 3\n  {LONG}\n\nend")
    lines = terminal.getvalue().split("\n")
    assert (lines[0], lines[-3:]) == ("shop/Deployment/a  2 -> 3", ["", "end", ""])
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("    ") for line in lines[2:-3])
    assert " ".join(" ".join(lines[1:-3]).split()) == LONG.strip()
    print_text("word " + "x" * 61)
    assert terminal.getvalue().endswith("end\nword\n  " + "x" * 61 + "\n")


def test_a_pipe_gets_each_paragraph_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"  {LONG}")
    assert capsys.readouterr().out == f"  {LONG}\n"


def test_a_metric_of_a_target_with_idle_is_active_or_not() -> None:
    text = paragraphs([synced(extended.target(extended.IDLE, replicas=1).sync("0s", queue=4))])
    assert_parts(text.splitlines()[2], "  queue: 4/10 ", " 1 replica", "not active")


def test_a_fallback_is_printed_once() -> None:
    timeline = extended.target(extended.lower(2), replicas=3).sync("0s", queue=30)
    text = paragraphs([synced(timeline.sync("6m", queue=None))])
    assert text.count("answer for queue") == 1
    assert len(text.splitlines()) == 2
