"""Kubernetes manifests: the autoscalers among them, and the configuration that they become."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.documents import Location, Value, as_yaml, child, entries
from autoscaler.importers.horizontal_pod_autoscalers import (
    PLACEHOLDER,
    TargetDraft,
    target_of,
    undecided,
)
from autoscaler.importers.scaled_objects import (
    RESTORES,
    Comparisons,
    Shared,
    draft_of,
    prometheus_of,
)

_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_SCALED_OBJECT = "ScaledObject"
_FILE, _ENTRY = "a configuration of autoscaler", "a target"
_MOST_KINDS = 5

MOST_CONVERTED = 1000
"""Autoscalers that are written as one configuration."""
_LONGEST_OF_ALL = 4 * 2**20
_LONGEST = 20_000
_MOST_VALUES = 2_000
"""The most characters, and values, of one target or query that is written."""


@dataclass
class Conversion:
    """What several files become together: one configuration."""

    most: int = MOST_CONVERTED
    """How many autoscalers are converted; of the others only their number is kept."""
    shared: Shared = field(default_factory=lambda: Shared(Comparisons(MOST_CONVERTED)))
    advice: list["Advice"] = field(default_factory=list)
    left_out: int = 0

    def add(self, advice: "Advice") -> None:
        """Add what is to be written."""
        if len(self.advice) < self.most:
            self.advice.append(advice)
        else:
            self.left_out += 1

    @property
    def ready(self) -> str:
        """The configuration, as YAML; empty where nothing was converted."""
        return ready_of(self.advice, left_out=self.left_out)


class Advice(NamedTuple):
    """What to do with a manifest: a sentence, lines that say more, and YAML to paste, if any."""

    location: Location
    kind: str
    message: str
    draft: TargetDraft = TargetDraft({})


def advice_on(value: Value, location: Location, shared: Shared) -> list[Advice]:
    """Say where the fields of the autoscalers go that are in a document, or else what it is.

    ``location`` is where it stands among the targets, empty for a file.  ``shared`` collects what
    the targets of several documents have in common.  Nothing is said of what is no manifest.
    """
    instead_of = _ENTRY if location else _FILE
    manifests = list(_manifests(value, location))
    every = (_autoscaler(manifest, place, instead_of, shared) for place, manifest in manifests)
    autoscalers = [advice for advice in every if advice is not None]
    if autoscalers or not manifests:
        return autoscalers
    kinds = list(dict.fromkeys(_kind_of(manifest) for _, manifest in manifests))
    listed = ", ".join(kinds[:_MOST_KINDS]) + (" and others" if len(kinds) > _MOST_KINDS else "")
    message = f"this is a Kubernetes manifest ({listed}), not {instead_of}"
    if "ConfigMap" in kinds:
        message += "; a configuration in its `data` can be checked as a file of its own"
    return [Advice(manifests[0][0], "", message)]


def _manifests(value: Value, location: Location) -> Iterator[tuple[Location, dict[str, Value]]]:
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if isinstance(items, list) and _kind_of(value).endswith("List"):
        for index, item in enumerate(items):
            yield from _manifests(item, (*location, "items", index))
    elif _kind_of(value):
        yield location, value


def _kind_of(value: Mapping[str, Value]) -> str:
    kind, spec = value.get("kind"), value.get("spec")
    if isinstance(value.get("apiVersion"), str) and isinstance(kind, str):
        return kind if _KIND.fullmatch(kind) else ""
    # Those who copy a manifest leave out the first lines at times.
    if isinstance(child(spec, "scaleTargetRef"), dict) and "scaleTargetRef" not in value:
        return _SCALED_OBJECT if child(spec, "triggers") is not None else "HorizontalPodAutoscaler"
    return ""


def _autoscaler(
    manifest: dict[str, Value], location: Location, instead_of: str, shared: Shared
) -> Advice | None:
    match _kind_of(manifest):
        case "HorizontalPodAutoscaler" as kind:
            message = f"this is a {kind}, not {instead_of}: a target is its `spec` with "
            message += "`namespace` beside it"
            return Advice(location, kind, message, target_of(manifest))
        case "ScaledObject" as kind:
            message = f"this is a KEDA {kind}, not {instead_of}"
            return Advice(location, kind, message, draft_of(manifest, shared))
        case "ScaledJob" as kind:
            message = f"this is a KEDA {kind}, not {instead_of}: it starts Jobs, which have no "
            message += "replicas to set, so that nothing here is its counterpart"
            return Advice(location, kind, message)
    return None


def ready_of(advice: Sequence[Advice], *, entry: bool = False, left_out: int = 0) -> str:
    """Write drafts as one configuration, or one as an ``entry``; very long ones are counted."""
    written, room = [], _LONGEST_OF_ALL
    for each in advice:
        length = _length(each.draft.target)
        if each.draft.target and length is not None and length <= room:
            written.append(each)
            room -= length
        elif each.draft.target:
            left_out += 1
    if not written:
        return ""
    drafts = [each.draft for each in written]
    queries = {
        name: query
        for draft in drafts
        for name, query in draft.queries.items()
        if _length(query) is not None
    }
    targets = [draft.target for draft in drafts]
    if entry and not queries:
        return "\n".join((*_comments(written), as_yaml(targets)))
    servers = {key: name for draft in drafts for key, name in draft.servers.items()}
    others = f"{left_out} HorizontalPodAutoscalers and ScaledObjects"
    why = "they were too many or too long to convert: convert them by themselves"
    configuration = {
        **({"undecided": [undecided(others, why)]} if left_out else {}),
        **({"prometheus": prometheus_of(servers)} if servers else {}),
        **({"queries": queries} if queries else {}),
        "targets": targets,
    }
    return "\n".join((*_comments(written), as_yaml(configuration)))


def _comments(written: Sequence[Advice]) -> Iterator[str]:
    left = (entry for each in written for entry in entries(each.draft.target, "undecided"))
    if any(str(child(entry, "field")).endswith(RESTORES) for _, entry in left):
        yield f"# before you delete a {_SCALED_OBJECT}, see what its target has in `undecided`"
    for kind in dict.fromkeys(each.kind for each in written):
        yield f"# delete the {kind}: while there is one, the daemon leaves its workload alone"
    if any(each.draft.target.get("namespace") == PLACEHOLDER for each in written):
        yield f"# {PLACEHOLDER}: the manifest does not say which"


def _length(value: object) -> int | None:
    """Return how long a value is as YAML; None for one that is very long."""
    if _room_after(value, _MOST_VALUES) < 0:
        return None
    length = len(as_yaml(value))
    return length if length <= _LONGEST else None


def _room_after(value: object, room: int) -> int:
    """Count down by the values of a value, as aliases repeat them; below 0 it is enough."""
    room -= 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        if room < 0:
            break
        room = _room_after(part, room)
    return room
