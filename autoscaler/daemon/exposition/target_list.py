"""The page of `/api/v1/targets`: how each target stands, as JSON, one target a line.

What takes long, the sentences, is made when the page is asked for and not at every sync.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from autoscaler.core.decision import Calculation, MetricResult
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.printable import printable
from autoscaler.core.rfc3339 import instant
from autoscaler.core.spec import MetricSpec
from autoscaler.daemon.exposition.metric_values import held_to, measured
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.rendering import wording
from autoscaler.rendering.standing import verdict
from autoscaler.sync.ports import SyncResult

Json = dict[str, object]

UNKNOWN = "unknown"
"""The state of a target before its first sync."""
_NOT_SYNCED = "not synced yet since the daemon started, or since its metrics were changed"
_UNKNOWN, _UNASKED = "<unknown>", "-"
"""In place of the value of a metric that is missing, and of one that was not asked for."""
_PART_BYTES = 64 << 10
_LONGEST_PART = 500


def target_list(
    targets: Iterable[Known], now: float, components: Sequence[Json] = ()
) -> Iterator[bytes]:
    """Yield the page in parts; ``now`` is the Unix time of it, ``components`` are not ok."""
    head = f'{{"time": "{instant(now)}", "components": {json.dumps(components)}, "targets": ['
    part, size = [head], 0
    separator = "\n"
    for one in targets:
        line = separator + json.dumps(_target(one))
        separator = ",\n"
        part.append(line)
        size += len(line)
        if size >= _PART_BYTES:
            yield "".join(part).encode()
            part, size = [], 0
    part.append("\n]}\n")
    yield "".join(part).encode()


def _target(known: Known) -> Json:
    target, last = known.target, known.last
    parts = [printable(part, _LONGEST_PART) for part in target.key.split("/", 2)]
    head: Json = {
        "target": wording.target_key(target),
        **dict(zip(("namespace", "kind", "name"), parts, strict=True)),
    }
    if last is None or known.since is None:
        return head | {
            **_counts(target.spec.min_replicas, target.spec.max_replicas, None, None),
            **_standing(UNKNOWN, None, _NOT_SYNCED),
            "metrics": _metrics(target.spec.metrics, (), _UNKNOWN),
            "lastSync": None,
        }
    decision = last.decision
    desired = None if decision.current is None else decision.desired
    # As of a target at zero, or that another autoscaler controls.
    unasked = decision.current is not None and not decision.metrics
    return head | {
        **_counts(decision.min_replicas, decision.max_replicas, decision.current, desired),
        **_standing(str(known.state), known.since, _sentence(last)),
        "metrics": _metrics(
            last.target.spec.metrics, decision.metrics, _UNASKED if unasked else _UNKNOWN
        ),
        "lastSync": instant(decision.time),
    }


def _counts(minimum: int, maximum: int, current: int | None, desired: int | None) -> Json:
    return {
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "currentReplicas": current,
        "desiredReplicas": desired,
    }


def _standing(state: str, since: float | None, message: str) -> Json:
    began = None if since is None else instant(since)
    return {"state": state, "since": began, "message": message}


def _sentence(result: SyncResult) -> str:
    return printable(verdict(result), LONGEST_SENTENCE)


def _metrics(
    specs: Sequence[MetricSpec], results: Sequence[MetricResult], absent: str
) -> list[Json]:
    """Return each metric of the spec; ``results`` is empty where metrics were not looked at.

    ``absent`` stands for a value that is not there.
    """
    return [_metric(spec, one, absent) for spec, one in zip_longest(specs, results)]


def _metric(spec: MetricSpec, result: MetricResult | None, absent: str) -> Json:
    kind, target = held_to(spec)
    value = text = None
    proposal = None
    if result is not None and isinstance(result.outcome, Calculation):
        value, text = measured(result.outcome.current), wording.usage(result)
        proposal = result.outcome.proposal
    return {
        "name": wording.metric_name(spec),
        "type": spec.type,
        "targetType": kind,
        "value": value,
        "target": target,
        "text": f"{text or absent}/{wording.target_value(spec)}",
        "proposedReplicas": proposal,
    }
