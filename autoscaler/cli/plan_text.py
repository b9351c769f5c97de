"""The text of `plan`: a paragraph for each target, and each common failure once."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from autoscaler.core.decision import Calculation, MetricResult, Outcome
from autoscaler.core.observation import LONGEST_SENTENCE, Gap, GapKind, Unavailable
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.text import printable
from autoscaler.rendering import target_rules, wording
from autoscaler.rendering.hpa import hpa_text
from autoscaler.rendering.reasons import verdict

_INDENT = "  "

Failures = Mapping[str, str]
"""The names of failures that several targets have, by their texts."""


def paragraphs(
    results: Sequence[SyncResult], findings: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Write each target's decision; those that one common failure has blocked are one paragraph.

    By the keys of targets, ``findings`` has what there is where a query found no series.
    """
    failures = _common(results)
    blocked: dict[str, list[SyncResult]] = defaultdict(list)
    others: list[str] = []
    for result in results:
        cause, key = _only_cause(result), result.target.key
        if cause in failures:
            blocked[cause].append(result)
        else:
            lines = (*_lines(result, failures), *(findings or {}).get(key, ()))
            others.append(_paragraph(result, lines))
    parts = [
        "\n".join((f"{name}: {cause}", *_blocked(blocked[cause])))
        for cause, name in failures.items()
    ]
    return "\n\n".join(parts + others)


def _common(results: Sequence[SyncResult]) -> Failures:
    """Name the failures of servers that more than one target has, in the order they come in.

    Others, as of a query without series, may only sound the same.
    """
    counts = Counter(cause for result in results for cause in _of_servers(result))
    common = [cause for cause, count in counts.items() if count > 1]
    return {cause: f"failure {number}" for number, cause in enumerate(common, 1)}


def _of_servers(result: SyncResult) -> set[str]:
    scale, found = result.decision.scale, set[str]()
    if isinstance(scale, Unavailable):
        found.add(printable(scale.message, LONGEST_SENTENCE))
    for metric in result.decision.metrics:
        if isinstance(metric.reading, Gap) and metric.reading.kind is GapKind.ERROR:
            found.add(_cause(metric))
    return found


def _cause(metric: MetricResult) -> str:
    """Return why a metric failed, without the metric's name; empty where it did not."""
    if isinstance(metric.outcome, Calculation):
        return ""
    detail = metric.reading.detail if isinstance(metric.reading, Gap) else metric.outcome.message
    return printable(detail, LONGEST_SENTENCE)


def _only_cause(result: SyncResult) -> str:
    """Return the one cause for which nothing at all could be decided; empty without one."""
    causes = _of_servers(result) | {_cause(metric) for metric in result.decision.metrics}
    blocked = result.decision.outcome is Outcome.BLOCKED and result.decision.held_until is None
    return causes.pop() if blocked and len(causes) == 1 else ""


def _blocked(results: Sequence[SyncResult]) -> Iterator[str]:
    if results:
        targets = wording.counted(len(results), "target")
        yield f"{_INDENT}nothing can be decided for {targets}:"
    for result in results:
        current = result.decision.current
        stays = "" if current is None else f", stays at {wording.counted(current, 'replica')}"
        yield f"{_INDENT}{wording.target_key(result.target)}{stays}"


def _paragraph(result: SyncResult, lines: Sequence[str]) -> str:
    decision = result.decision
    move = "" if decision.current is None else f"  {decision.current} -> {decision.desired}"
    told = lines if decision.hpa is None else [hpa_text(decision.hpa), *lines]
    shown = [_INDENT + printable(line, LONGEST_SENTENCE) for line in told]
    return "\n".join((f"{wording.target_key(result.target)}{move}", *shown))


def _lines(result: SyncResult, failures: Failures) -> Iterator[str]:
    sentence = verdict(result)
    yield _short(sentence, failures)
    for metric in result.decision.metrics:
        if not _is_told(metric, sentence):
            yield _short(_metric(metric), failures)


def _is_told(metric: MetricResult, sentence: str) -> bool:
    """Return whether a sentence says of this metric, and not of another, why it failed."""
    cause = _cause(metric)
    if not cause or cause not in sentence:
        return False
    if f"{wording.metric_name(metric.metric)}: {cause}" in sentence:
        return True
    return metric.fallback is not None and target_rules.fallback(metric) in sentence


def _short(text: str, failures: Failures) -> str:
    for cause, name in failures.items():
        text = text.replace(cause, name)
    return text


def _metric(metric: MetricResult) -> str:
    name = wording.metric_name(metric.metric)
    outcome = metric.outcome
    if not isinstance(outcome, Calculation):
        instead = "" if metric.fallback is None else f"; {target_rules.fallback(metric)}"
        return f"{name}: could not be used: {_cause(metric)}{instead}"
    usage, of_request = wording.usage_and_target(metric), wording.usage_and_request(metric)
    made_of = "" if of_request is None else f" ({' of '.join(of_request)} a pod on average)"
    active = "" if metric.activity is None else f", {wording.ACTIVITY_WORDS[metric.activity]}"
    asks = f"asks for {wording.counted(outcome.proposal, 'replica')}"
    return f"{name}: {usage}{made_of} {asks}{active}"
