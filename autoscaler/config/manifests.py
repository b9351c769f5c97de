"""Kubernetes manifests that stand where a configuration or a target belongs."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from autoscaler.config.document import Value, child
from autoscaler.config.hpa_manifests import PLACEHOLDER, TargetDraft, target_of
from autoscaler.config.keda_manifests import draft_of
from autoscaler.config.problems import Location
from autoscaler.config.yaml_text import yaml_text

_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_FILE, _ENTRY = "a configuration of autoscaler", "a target"
_MOST_KINDS = 5


class Advice(NamedTuple):
    """What to do with a manifest: a sentence, lines that say more, and YAML to paste, if any."""

    location: Location
    kind: str
    message: str
    details: tuple[str, ...] = ()
    ready: str = ""


def advice_on(value: Value, location: Location = ()) -> list[Advice]:
    """Say where the fields of the autoscalers go that are in a document, or else what it is.

    ``location`` is where it stands among the targets, empty for a file.  Nothing is said of what is
    no manifest.
    """
    instead_of = _ENTRY if location else _FILE
    found = list(_manifests(value, location))
    advice = [_autoscaler(manifest, place, instead_of) for place, manifest in found]
    told = [one for one in advice if one is not None]
    if told or not found:
        return told
    kinds = list(dict.fromkeys(_kind_of(manifest) for _, manifest in found))
    listed = ", ".join(kinds[:_MOST_KINDS]) + (" and others" if len(kinds) > _MOST_KINDS else "")
    message = f"this is a Kubernetes manifest ({listed}), not {instead_of}"
    if "ConfigMap" in kinds:
        message += "; a configuration in its `data` can be checked as a file of its own"
    return [Advice(found[0][0], "", message)]


def _manifests(value: Value, location: Location) -> Iterator[tuple[Location, dict[str, Value]]]:
    """Yield a manifest, or those that a List holds."""
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if isinstance(items, list) and _kind_of(value).endswith("List"):
        for index, item in enumerate(items):
            yield from _manifests(item, (*location, "items", index))
    elif _kind_of(value):
        yield location, value


def _kind_of(value: Mapping[str, Value]) -> str:
    """Return the kind of a manifest, empty for what is none."""
    kind, spec = value.get("kind"), value.get("spec")
    if isinstance(value.get("apiVersion"), str) and isinstance(kind, str):
        return kind if _KIND.fullmatch(kind) else ""
    # Those who copy one leave out the first lines at times.
    if isinstance(child(spec, "scaleTargetRef"), dict) and "scaleTargetRef" not in value:
        return "ScaledObject" if child(spec, "triggers") is not None else "HorizontalPodAutoscaler"
    return ""


def _autoscaler(manifest: dict[str, Value], location: Location, instead_of: str) -> Advice | None:
    kind = _kind_of(manifest)
    if kind == "HorizontalPodAutoscaler":
        draft = target_of(manifest)
        begin = (
            f"this is a {kind}, not {instead_of}: a target is its `spec` with `namespace` beside it"
        )
    elif kind == "ScaledObject":
        draft = draft_of(manifest)
        begin = f"this is a KEDA {kind}, not {instead_of}"
    elif kind == "ScaledJob":
        message = (
            f"this is a KEDA {kind}, not {instead_of}: it starts Jobs, which have no replicas to "
            "set, so that nothing here is its counterpart"
        )
        return Advice(location, kind, message)
    else:
        return None
    ready = _ready(draft, kind, instead_of) if draft.target else ""
    return Advice(location, kind, begin, draft.notes, ready)


def _ready(draft: TargetDraft, kind: str, instead_of: str) -> str:
    """Write a draft as the parts of a configuration, or as the entry that it would be."""
    comments = [f"# delete the {kind}: while there is one, the daemon leaves its workload alone"]
    if draft.target.get("namespace") == PLACEHOLDER:
        comments.append(f"# {PLACEHOLDER}: the manifest does not say which")
    if instead_of == _ENTRY and not draft.queries:
        text = yaml_text([draft.target])
    else:
        prometheus = {"prometheus": {"url": draft.prometheus}} if draft.prometheus else {}
        queries = {"queries": draft.queries} if draft.queries else {}
        text = yaml_text({**prometheus, **queries, "targets": [draft.target]})
    return "\n".join((*comments, text)) if text else ""
