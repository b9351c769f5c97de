"""The text of `plan`: what is printed is what was said, to the last character, and once."""

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
from tests.narrowing import instance
from tests.rendering import test_extension_words as extended
from tests.worlds.memory import T0, Memory, answer, external
from tests.worlds.record import synced

REFUSED = "Prometheus at http://127.0.0.1:9090 refused the connection"
AWAY = "the API server https://127.0.0.1:6443 cannot be reached: connection refused"
Answers: TypeAlias = dict[str, QueryResult | QueryFailure]
A, B = external("shop", "a"), external("shop", "b")
EMPTY: Answers = {"queue": answer(), "rest": answer()}


def planned(answers: Answers, *targets: Target, away: str = "") -> list[str]:
    """Sync targets of two replicas once, `shop/a` unless told; return the lines that are printed.

    Where the API server is ``away`` nothing is known of their scales.
    """
    targets = targets or (external("shop", "a"),)
    names = [target.spec.scale_target_ref.name for target in targets]
    scales: dict[str, Scale | ReadFailure] = {
        f"shop/{name}": ReadFailure(away) if away else Scale(2, 2, f"app={name}") for name in names
    }
    world = Memory(answers=answers, scales=scales)
    with world.syncer() as syncer:
        syncer.sync(targets, T0, 10.0)
    return paragraphs(sorted(world.results, key=lambda result: result.target.key)).split("\n")


def two_metrics(name: str) -> Target:
    """Return a target of the metrics of two queries, `queue` and `rest`."""
    target = external("shop", name)
    spec = replace(target.spec, metrics=target.spec.metrics * 2)
    return Target("shop", spec, (Query("queue"), Query("rest")))


@pytest.mark.parametrize("text", ["[/foo]", 'up{job=~"[a-z]+"}', "a:car:rate5m", "[red]x[/red]"])
def test_the_text_takes_no_text_for_markup(text: str) -> None:
    """Prometheus' own words hold brackets and colons; none of them is left out or drawn."""
    assert text in planned({"queue": QueryFailure(text)})[1]


def test_a_decision_is_a_line_of_counts_the_verdict_and_its_causes() -> None:
    """What was done and why, what restricts it, and each metric's value, target and proposal."""
    assert planned({"queue": answer(600.0)}) == [
        "shop/Deployment/a  2 -> 4",
        (
            "  scaled 2 -> 4: queue above target (300/30 per replica); metrics ask for 20; "
            "default scale-up limit (twice the replicas or 4 per sync) permits 4"
        ),
        "  queue: 300/30 per replica asks for 20 replicas",
    ]


def test_a_failure_is_told_once_of_a_target() -> None:
    """It is in the verdict, and neither in the metric's line nor in one of an Event."""
    assert planned({"queue": QueryFailure(REFUSED)}) == [
        "shop/Deployment/a  2 -> 2",
        f"  unchanged (2): queue: {REFUSED}",
    ]


def test_a_failure_of_many_targets_is_told_once_with_their_names() -> None:
    """Those that it blocks are listed under it; one that another metric moves refers to it."""
    answers: Answers = {"queue": QueryFailure(REFUSED), "rest": answer(90.0)}
    assert planned(answers, A, B, two_metrics("c")) == [
        f"failure 1: {REFUSED}",
        "  nothing can be decided for 2 targets:",
        "  shop/Deployment/a, stays at 2 replicas",
        "  shop/Deployment/b, stays at 2 replicas",
        "",
        "shop/Deployment/c  2 -> 3",
        ("  scaled 2 -> 3: queue above target (45/30 per replica); partial: queue: failure 1"),
        "  queue: 45/30 per replica asks for 3 replicas",
    ]


def test_scales_that_cannot_be_read_are_told_once() -> None:
    """No count is made up for them."""
    assert planned({"queue": answer(90.0)}, A, B, away=AWAY) == [
        f"failure 1: {AWAY}",
        "  nothing can be decided for 2 targets:",
        "  shop/Deployment/a",
        "  shop/Deployment/b",
    ]


def test_what_only_sounds_the_same_is_told_of_each() -> None:
    """Two queries without series are two mistakes."""
    text = "\n".join(planned(EMPTY, A, external("shop", "b", promql="rest")))
    assert "failure" not in text
    assert text.count("the query returned no series") == 2


def test_a_metric_that_fails_as_another_does_has_its_own_line() -> None:
    """In plain words; the first of them is in the verdict."""
    target = two_metrics("a")
    queue, rest = target.spec.metrics
    rest = instance(ExternalMetric, rest)
    rest = replace(rest, metric=replace(rest.metric, name="rest"))
    assert planned(EMPTY, replace(target, spec=replace(target.spec, metrics=(queue, rest)))) == [
        "shop/Deployment/a  2 -> 2",
        ("  unchanged (2): queue: the query returned no series (and 1 more metric)"),
        "  rest: could not be used: the query returned no series",
    ]


class Terminal(io.StringIO):
    """A terminal that remembers what it shows."""

    def isatty(self) -> bool:
        """Be one."""
        return True


LONG = 'queue{queue="orders"}: could not be used: a-long-name-that-nobody-breaks ' + "so " * 40


def test_a_terminal_wraps_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 60 columns no line is longer, none breaks a word, and what follows is indented."""
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


def test_a_pipe_gets_each_sentence_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """So that grep finds what belongs together."""
    print_text(f"  {LONG}")
    assert capsys.readouterr().out == f"  {LONG}\n"


def test_a_metric_is_told_to_be_active_or_not() -> None:
    """Of a target that has `idle`."""
    told = paragraphs([synced(extended.target(extended.IDLE, replicas=1).sync("0s", queue=4))])
    assert told.splitlines()[2] == "  queue: 4/10 per replica asks for 1 replica, not active"


def test_a_fallback_is_told_once() -> None:
    """In the verdict, or beside its metric where that names another failure."""
    timeline = extended.target(extended.lower(2), replicas=3).sync("0s", queue=30)
    told = paragraphs([synced(timeline.sync("6m", queue=None))])
    assert told.count("queue failed in 1 sync, fallback asks for 2") == 1
