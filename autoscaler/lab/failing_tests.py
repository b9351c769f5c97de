"""A failing policy test as text: what does not hold, the decision explained, and the timeline."""

from collections.abc import Mapping, Sequence

from autoscaler.cli.output import aligned
from autoscaler.config import durations
from autoscaler.config.documents import as_flow, path_of
from autoscaler.core.decision import Decision
from autoscaler.lab.policy_tests.expectations import Unmet, desired_of, proposal_of
from autoscaler.lab.policy_tests.generated import CounterExample
from autoscaler.lab.policy_tests.kept_world import TargetRun
from autoscaler.lab.policy_tests.loading import PolicyTestFile
from autoscaler.lab.policy_tests.running import PolicyTestRun
from autoscaler.lab.series_notation import written
from autoscaler.rendering import reasons, wording
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.record import QuerySource

_MOST_TOLD, _MOST_EXPLAINED = 20, 3
_BEFORE, _AFTER = 5, 3
_LONGEST_READING = 40
_HEADS = ("time", "reading", "proposal", "desired", "count", "ready", "reason")


def failure_text(
    file: PolicyTestFile,
    run: PolicyTestRun,
    broken: Sequence[Unmet],
    sources: Mapping[str, tuple[QuerySource, ...]],
    example: CounterExample | None,
) -> str:
    """Return all that is to be said of a test that failed."""
    lines = []
    if example is not None:
        stated = run.test.series
        keys = "`random` and `series`" if stated else "`random`"
        lines += [f"  found in run {example.number}; to see it again, write instead of {keys}:"]
        lines += ["  series:"]
        series = (*stated, *example.lasting)
        lines += [f"    {_key(one.name)}: {written(one.items)}" for one in series]
    for one in broken[:_MOST_TOLD]:
        place = f"{file.source.path}:{file.line(one.location)}: {path_of(one.location)}"
        lines.append(f"  {place}: {one.sentence}")
    if len(broken) > _MOST_TOLD:
        lines.append(f"  and {len(broken) - _MOST_TOLD} more")
    told: dict[tuple[str, int], Unmet] = {}
    for one in broken:
        told.setdefault((one.run.target.key, one.index), one)
    for one in list(told.values())[:_MOST_EXPLAINED]:
        lines += ["", *_explained(one, sources), "", *_timeline(one)]
    if run.assumed:
        lines += ["", "  assumed:", *(f"    {sentence}" for sentence in run.assumed)]
    return "\n".join(lines)


def _key(name: str) -> str:
    """Write a name as a key of YAML, with quotes where it needs them."""
    return as_flow([name])[1:-1]


def _explained(one: Unmet, sources: Mapping[str, tuple[QuerySource, ...]]) -> list[str]:
    step = one.run.counts[one.index].step
    if step is None:
        return ["  the daemon had not decided anything by then"]
    # The series are in the file of tests: Prometheus need not have them.
    text = explain(step.result, sources.get(one.run.target.key, ()), file=None)
    return [f"  {line}" for line in text.split("\n")]


def _timeline(one: Unmet) -> list[str]:
    """Return a table of the syncs around a count."""
    first, last = max(0, one.index - _BEFORE), one.index + _AFTER + 1
    rows = [_row(one.run, i) for i in range(first, min(last, len(one.run.counts)))]
    head, *lines = aligned([_HEADS, *rows], left=range(len(_HEADS)))
    marks = (">" if index == one.index else " " for index in range(first, first + len(rows)))
    return [
        f"    {head}",
        *(f"  {mark} {line}" for mark, line in zip(marks, lines, strict=True)),
    ]


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
    read = ", ".join(wording.usage_and_target(one) for one in decision.metrics) or "-"
    return read if len(read) <= _LONGEST_READING else f"{read[: _LONGEST_READING - 1]}…"
