"""The page of `/api/v1/targets`: the state of each target as JSON, one target a line.

Sentences take long: they are made when the page is asked for, not at every sync.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from autoscaler.core.spec import MetricSpec
from autoscaler.core.text import rfc3339
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.rendering import wording
from autoscaler.rendering.record import NOT_ASKED, UNKNOWN, Json, as_json, metric_record, record_of
from autoscaler.rendering.verdict import State

_NOT_SYNCED = "not synced yet since the daemon started, or since its metrics were changed"
_FIELDS = frozenset(
    {
        "state",
        "message",
        "min_replicas",
        "max_replicas",
        "current_replicas",
        "desired_replicas",
        "metrics",
        "min_replicas_by",
        "max_replicas_by",
        "missing_bound",
        "pause",
        "idle",
    }
)
_PART_BYTES = 64 << 10


def target_list(
    targets: Iterable[Known],
    now: float,
    components: Sequence[Json] = (),
    token: str | None = None,
) -> Iterator[bytes]:
    """Yield the page in parts; ``now`` is the Unix time of it, ``components`` are not ok.

    ``token`` asks for the page after it, if there is one.
    """
    head = f'{{"time": "{rfc3339(now)}", "components": {json.dumps(components)}, "targets": ['
    part, size = [head], 0
    separator = "\n"
    for one in targets:
        line = separator + json.dumps(target_state(one))
        separator = ",\n"
        part.append(line)
        size += len(line)
        if size >= _PART_BYTES:
            yield "".join(part).encode()
            part, size = [], 0
    part.append(f'\n], "continue": {json.dumps(token)}}}\n')
    yield "".join(part).encode()


def target_state(known: Known) -> Json:
    """Return one target of the page."""
    target, last = known.target, known.last
    shown: Json = {
        "target": wording.target_key(target),
        **dict(zip(("namespace", "kind", "name"), wording.key_parts(target), strict=True)),
        "since": None if known.since is None else rfc3339(known.since),
        "lastSync": None if last is None else rfc3339(last.decision.time),
    }
    if last is None or known.state is None:
        return shown | {
            "state": State.UNKNOWN.value,
            "message": _NOT_SYNCED,
            "minReplicas": target.spec.min_replicas,
            "maxReplicas": target.spec.max_replicas,
            "currentReplicas": None,
            "desiredReplicas": None,
            "metrics": _without_values(target.spec.metrics, UNKNOWN),
        }
    shown |= as_json(record_of(last, known.state), _FIELDS)
    if not last.decision.metrics:
        # A target at zero, or that another autoscaler controls, needs no values.
        absent = UNKNOWN if last.decision.current is None else NOT_ASKED
        shown["metrics"] = _without_values(last.target.spec.metrics, absent)
    return shown


def _without_values(metrics: Sequence[MetricSpec], absent: str) -> list[Json]:
    return [as_json(metric_record(one, None, absent)) for one in metrics]
