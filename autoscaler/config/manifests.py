"""Files and entries that hold something else: manifests of Kubernetes, rules of Prometheus."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import yaml

from autoscaler.config.document import Location, Value, child, documents, place_of
from autoscaler.config.error_messages import closest
from autoscaler.config.manifest_targets import PLACEHOLDER, TargetDraft, target_of
from autoscaler.config.problems import Problem
from autoscaler.config.scaled_objects import draft_of
from autoscaler.config.settings import KEYS

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
        prometheus = {"prometheus": draft.prometheus} if draft.prometheus else {}
        queries = {"queries": draft.queries} if draft.queries else {}
        text = yaml_text({**prometheus, **queries, "targets": [draft.target]})
    return "\n".join((*comments, text)) if text else ""


SOMETHING_ELSE = "the file is something else: it has none of the keys of a configuration"
_OTHERS = {
    "groups": "these are rules for Prometheus, which reads them itself",
    "scrape_configs": "this is the configuration of Prometheus itself",
    "externalRules": "these are rules of prometheus-adapter; the PromQL of their `metricsQuery`, "
    "written out, is what `queries` holds",
    "resourceRules": "these are rules of prometheus-adapter; for cpu and memory the queries are "
    "built in",
    "$schema": "this is a JSON Schema, which is for editors",
}
"""Keys that tell what a file is, and what to say of it."""


def is_configuration(value: Value) -> bool:
    """Return whether a document is meant as one of ours, by its keys at the top."""
    if not isinstance(value, dict) or _looks_like_manifest(value):
        return False
    if not value or not KEYS.isdisjoint(value):
        return True
    # Only what is nearly one of them: of another file nothing is to be quoted.
    return any(closest(key, KEYS, cutoff=0.85) is not None for key in list(value)[:100])


def _looks_like_manifest(value: dict[str, Value]) -> bool:
    known = isinstance(value.get("kind"), str) and isinstance(value.get("apiVersion"), str)
    return known and not {"prometheus", "targets"} & value.keys()


def manifest_problems(file: str, text: str) -> list[Problem]:
    """Say what Kubernetes manifests a file holds, and what its autoscalers would be here.

    Nothing else is quoted from them.
    """
    told = [
        (advice, place_of(advice.location, document.places).line)
        for document in documents(text)
        for advice in advice_on(document.value)
    ]
    autoscalers = [(advice, line) for advice, line in told if advice.kind]
    return [
        Problem(file, line, "", None, advice.message, advice.details, advice.ready)
        for advice, line in autoscalers or told[:1]
    ]


def what_it_is(value: Value, of_what: str) -> str:
    """Say what a document is that is none of ours; ``of_what`` says what it should hold.

    Returns nothing for a text, and for a list that is nothing known.
    """
    if isinstance(value, list) and value and isinstance(child(value[0], "scaleTargetRef"), dict):
        return "this is a list of targets: write them under the key `targets`"
    if value is None:
        return f"the file is empty; {of_what}"
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("scaleTargetRef"), dict):
        return "this is one target: write it as an entry of the list `targets`"
    sentence = next((said for key, said in _OTHERS.items() if key in value), SOMETHING_ELSE)
    return f"{sentence}; {of_what}"


_LONGEST = 20_000
_MOST_VALUES = 2_000
_WIDTH = 10_000


class _Dumper(yaml.SafeDumper):
    """Writes lists within mappings without an indent, as Kubernetes' manifests mostly have them."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature of PyYAML
        """Repeat what is in two places, instead of naming it."""
        return True


def yaml_text(value: object) -> str:
    """Write a value as YAML in printable ASCII; nothing where it would be very long."""
    if _room_after(value, _MOST_VALUES) < 0:
        return ""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDTH).rstrip("\n")
    return text if len(text) <= _LONGEST else ""


def _room_after(value: object, room: int) -> int:
    """Count down by the values of a value, as aliases repeat them; below 0 it is enough."""
    room -= 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        if room < 0:
            break
        room = _room_after(one, room)
    return room
