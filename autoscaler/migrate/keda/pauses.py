"""The annotations of KEDA on a ScaledObject -> `paused`, and what to do about the others.

https://keda.sh/docs/latest/concepts/scaling-deployments/#pausing-autoscaling
"""

from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.metadata import is_false, is_true

_PAUSED = "autoscaling.keda.sh/paused"
_REPLICAS = f"{_PAUSED}-replicas"
_IN, _OUT = f"{_PAUSED}-scale-in", f"{_PAUSED}-scale-out"
_FORCED = "autoscaling.keda.sh/force-activation"
_IGNORED = {
    "scaledobject.keda.sh/transfer-hpa-ownership": (
        "there is no HPA here to take over: one that exists is deleted by you"
    ),
    "scaledobject.keda.sh/hpa-excluded-labels": "there is no HPA here that has labels",
    "validations.keda.sh/hpa-ownership": (
        "there is no webhook here: a target that an HPA controls is left alone"
    ),
}
_LONGEST_COUNT = 9


def paused_of(fields: Fields) -> object:
    """Return `paused` for the annotations of a ScaledObject; None where it is not paused."""
    annotations = fields.within("metadata", "annotations")
    for key, why in _IGNORED.items():
        if annotations.peek(key) is not None:
            annotations.ignored(key, why=why)
    if is_true(_text(annotations, _FORCED)):
        why = "it keeps the target awake: use `schedules`, or a `minReplicas` without `idle`"
        annotations.refused(_FORCED, why=why)
    elif annotations.peek(_FORCED) is not None:
        annotations.ignored(_FORCED, why="it is off")
    given = {key: annotations.get(key) for key in (_PAUSED, _REPLICAS, _IN, _OUT)}
    if given[_REPLICAS] is not None:
        return _at(annotations)
    if given[_PAUSED] is not None and not is_false(_text(annotations, _PAUSED)):
        return True
    # KEDA takes any other text for a pause, too.
    down, up = (
        given[key] is not None and not is_false(_text(annotations, key)) for key in (_IN, _OUT)
    )
    if down and up:
        return True
    return "scaleDown" if down else "scaleUp" if up else None


def _at(annotations: Fields) -> object:
    count = _text(annotations, _REPLICAS)
    if count.isdecimal() and count.isascii() and len(count) <= _LONGEST_COUNT:
        return {"replicas": int(count)}
    annotations.different(_REPLICAS, why="is no count, so that KEDA fails: it is a pause here")
    return True


def _text(annotations: Fields, key: str) -> str:
    value = annotations.peek(key)
    return str(value).lower() if isinstance(value, bool) else str(value)
