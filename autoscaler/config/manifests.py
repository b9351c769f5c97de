"""Files and entries that hold something else: manifests of Kubernetes, rules of Prometheus."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import yaml

from autoscaler.config.document import Location, Value, child, documents, place_of
from autoscaler.config.error_messages import closest
from autoscaler.config.manifest_targets import PLACEHOLDER, TargetDraft, target_of
from autoscaler.config.problems import MOST_PROBLEMS, Problem
from autoscaler.config.scaled_objects import Shared, draft_of, prometheus_of
from autoscaler.config.settings import KEYS

_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_FILE, _ENTRY = "a configuration of autoscaler", "a target"
_MOST_KINDS = 5


class Advice(NamedTuple):
    """What to do with a manifest: a sentence, lines that say more, and YAML to paste, if any."""

    location: Location
    kind: str
    message: str
    draft: TargetDraft = TargetDraft({})

    @property
    def details(self) -> tuple[str, ...]:
        """What is to be known of the draft."""
        return self.draft.notes


def advice_on(value: Value, location: Location = (), shared: Shared | None = None) -> list[Advice]:
    """Say where the fields of the autoscalers go that are in a document, or else what it is.

    ``location`` is where it stands among the targets, empty for a file.  ``shared`` collects what
    the targets of several documents have in common.  Nothing is said of what is no manifest.
    """
    together = Shared() if shared is None else shared
    instead_of = _ENTRY if location else _FILE
    found = list(_manifests(value, location))
    advice = [_autoscaler(manifest, place, instead_of, together) for place, manifest in found]
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


def _autoscaler(
    manifest: dict[str, Value], location: Location, instead_of: str, shared: Shared
) -> Advice | None:
    kind = _kind_of(manifest)
    if kind == "HorizontalPodAutoscaler":
        draft = target_of(manifest)
        begin = (
            f"this is a {kind}, not {instead_of}: a target is its `spec` with `namespace` beside it"
        )
    elif kind == "ScaledObject":
        draft = draft_of(manifest, shared)
        begin = f"this is a KEDA {kind}, not {instead_of}"
    elif kind == "ScaledJob":
        message = (
            f"this is a KEDA {kind}, not {instead_of}: it starts Jobs, which have no replicas to "
            "set, so that nothing here is its counterpart"
        )
        return Advice(location, kind, message)
    else:
        return None
    return Advice(location, kind, begin, draft)


def ready_of(advice: Sequence[Advice], *, entry: bool = False) -> str:
    """Write drafts as the parts of one configuration, or one as the ``entry`` that it would be.

    What would be very long is left out.
    """
    told = [one for one in advice if one.draft.target and _is_short(one.draft.target)]
    drafts = [one.draft for one in told]
    if not drafts:
        return ""
    comments = [
        f"# delete the {kind}: while there is one, the daemon leaves its workload alone"
        for kind in dict.fromkeys(one.kind for one in told)
    ]
    if any(draft.target.get("namespace") == PLACEHOLDER for draft in drafts):
        comments.append(f"# {PLACEHOLDER}: the manifest does not say which")
    targets = [draft.target for draft in drafts]
    queries = {
        name: query for draft in drafts for name, query in draft.queries.items() if _is_short(query)
    }
    servers = {key: name for draft in drafts for key, name in draft.servers.items()}
    text = _yaml(
        targets
        if entry and not queries
        else {
            **({"prometheus": prometheus_of(servers)} if servers else {}),
            **({"queries": queries} if queries else {}),
            "targets": targets,
        }
    )
    return "\n".join((*comments, text))


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
    shared = Shared()
    told = [
        (advice, place_of(advice.location, document.places).line)
        for document in documents(text)
        for advice in advice_on(document.value, shared=shared)
    ]
    autoscalers = [(advice, line) for advice, line in told if advice.kind][:MOST_PROBLEMS]
    problems = [
        Problem(file, line, "", None, advice.message, advice.details)
        for advice, line in autoscalers or told[:1]
    ]
    # The targets of all of them are one file.
    ready = ready_of([advice for advice, _ in autoscalers])
    return [*problems[:-1], replace(problems[-1], ready=ready)] if problems else []


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


def _yaml(value: object) -> str:
    """Write a value as YAML in printable ASCII."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDTH).rstrip("\n")


def _is_short(value: object) -> bool:
    """Return whether a value is not very long as YAML."""
    return _room_after(value, _MOST_VALUES) >= 0 and len(_yaml(value)) <= _LONGEST


def _room_after(value: object, room: int) -> int:
    """Count down by the values of a value, as aliases repeat them; below 0 it is enough."""
    room -= 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        if room < 0:
            break
        room = _room_after(one, room)
    return room
