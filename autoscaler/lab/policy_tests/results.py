"""The results of policy tests: the text of a failure, and a report as JUnit XML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from autoscaler.cli.output import aligned
from autoscaler.config import durations
from autoscaler.config.documents import path_of
from autoscaler.core.decision import Decision
from autoscaler.core.text import printable
from autoscaler.lab.policy_tests.expectations import UnmetExpectation, desired_of, proposal_of
from autoscaler.lab.policy_tests.loading import PolicyTestFile
from autoscaler.lab.policy_tests.running import PolicyTestRun, TargetRun
from autoscaler.rendering import reasons, wording
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.record import QuerySource

_LONGEST = 20_000


@dataclass(frozen=True)
class PolicyTestResult:
    """The result of one test: the text of a failure, or empty; ``assumed`` are sentences."""

    name: str
    seconds: float
    summary: str = ""
    text: str = ""
    assumed: tuple[str, ...] = ()


@dataclass
class FileResult:
    """The results of one file; ``error`` is the reason if it could not be run."""

    file: Path
    results: list[PolicyTestResult] = field(default_factory=list)
    left_out: int = 0
    error: str = ""

    @property
    def failed(self) -> list[PolicyTestResult]:
        """The failed tests."""
        return [result for result in self.results if result.summary]


def as_junit(results: Sequence[FileResult]) -> str:
    """Write the results: a suite for each file, with the error of the file."""
    root = Element("testsuites", name="autoscaler test")
    for result in results:
        suite = SubElement(root, "testsuite", name=_text(str(result.file)))
        for outcome in result.results:
            case = SubElement(
                suite,
                "testcase",
                name=_text(outcome.name),
                classname=_text(str(result.file)),
                time=f"{outcome.seconds:.3f}",
            )
            if outcome.summary:
                failure = SubElement(
                    case, "failure", message=_text(outcome.summary), type="Expectation"
                )
                failure.text = _lines(outcome.text)
        if result.error:
            case = SubElement(
                suite, "testcase", name="is valid", classname=_text(str(result.file)), time="0.000"
            )
            first = result.error.partition("\n")[0]
            error = SubElement(case, "error", message=_text(first), type="ConfigError")
            error.text = _lines(result.error)
        _count(suite, sum(outcome.seconds for outcome in result.results))
    _count(root, sum(outcome.seconds for result in results for outcome in result.results))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _count(element: Element, seconds: float) -> None:
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        element.set(name, str(sum(1 for _ in element.iter(tag))))
    element.set("time", f"{seconds:.3f}")


def _text(text: str) -> str:
    """Return one line with only characters that XML accepts."""
    return printable(text, _LONGEST)


def _lines(text: str) -> str:
    """Return the same of several lines, which stay aligned."""
    return "".join(
        character if character.isprintable() or character == "\n" else " " for character in text
    )


# -- the text of a failure ------------------------------------------------------------------------

_MOST_TOLD, _MOST_EXPLAINED = 20, 3
_BEFORE, _AFTER = 5, 3
_LONGEST_READING = 40
_HEADS = ("time", "reading", "proposal", "desired", "count", "ready", "reason")


def failure_text(
    file: PolicyTestFile,
    run: PolicyTestRun,
    broken: Sequence[UnmetExpectation],
    sources: Mapping[str, tuple[QuerySource, ...]],
) -> str:
    """Return the text about a failed test."""
    lines = []
    for expectation in broken[:_MOST_TOLD]:
        place = (
            f"{file.source.path}:{file.line(expectation.location)}: {path_of(expectation.location)}"
        )
        lines.append(f"  {place}: {expectation.sentence}")
    if len(broken) > _MOST_TOLD:
        lines.append(f"  and {len(broken) - _MOST_TOLD} more")
    told: dict[tuple[str, int], UnmetExpectation] = {}
    for expectation in broken:
        told.setdefault((expectation.run.target.key, expectation.index), expectation)
    for unmet in list(told.values())[:_MOST_EXPLAINED]:
        lines += ["", *_explained(unmet, sources), "", *_timeline(unmet)]
    if run.assumed:
        lines += ["", "  assumed:", *(f"    {sentence}" for sentence in run.assumed)]
    return "\n".join(lines)


def _explained(
    expectation: UnmetExpectation, sources: Mapping[str, tuple[QuerySource, ...]]
) -> list[str]:
    step = expectation.run.counts[expectation.index].step
    if step is None:
        return ["  the daemon had not decided anything by then"]
    # The series are in the file of tests, so Prometheus need not have them.
    text = explain(step.result, sources.get(expectation.run.target.key, ()), file=None)
    return [f"  {line}" for line in text.split("\n")]


def _timeline(expectation: UnmetExpectation) -> list[str]:
    """Return a table of the syncs around a count."""
    first, last = max(0, expectation.index - _BEFORE), expectation.index + _AFTER + 1
    rows = [_row(expectation.run, i) for i in range(first, min(last, len(expectation.run.counts)))]
    head, *lines = aligned([_HEADS, *rows], left=range(len(_HEADS)))
    marks = (
        ">" if index == expectation.index else " " for index in range(first, first + len(rows))
    )
    return [f"    {head}", *(f"  {mark} {line}" for mark, line in zip(marks, lines, strict=True))]


def _row(run: TargetRun, index: int) -> tuple[str, ...]:
    count = run.counts[index]
    ready = str(run.ready_at(count.time))
    time, replicas = durations.format_seconds(count.time), str(count.replicas)
    step = count.step
    if step is None or (index and run.counts[index - 1].step is step):
        return time, "-", "-", "-", replicas, ready, "no sync: the daemon does not run"
    proposal, desired = proposal_of(step), desired_of(step)
    return (
        time,
        _reading(step.decision),
        "-" if proposal is None else str(proposal),
        "-" if desired is None else str(desired),
        replicas,
        ready,
        reasons.verdict(step.result),
    )


def _reading(decision: Decision) -> str:
    read = ", ".join(wording.usage_and_target(metric) for metric in decision.metrics) or "-"
    return read if len(read) <= _LONGEST_READING else f"{read[: _LONGEST_READING - 1]}…"
