"""Writes the converted manifests as a configuration."""

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.config.documents import Location, as_flow, as_yaml, child, entries
from autoscaler.config.objects import API_VERSION, KIND
from autoscaler.migrate.conversion import Conversion, ImportedManifest
from autoscaler.migrate.drafts import free_name, queries_of

_WIDTH = 100
_INDENT = "  "
_LONGEST_COMMENT = 600

Comments = Mapping[Location, Sequence[str]]
"""Comments by the location that they precede; comments of () are at the top."""


def as_text(document: Mapping[str, object], comments: Comments) -> str:
    """Write a document; the comment of a missing place is above the nearest place."""
    placed: dict[Location, list[str]] = defaultdict(list)
    for location, texts in comments.items():
        place = location
        while place and child(document, *place) is None:
            place = place[:-1]
        placed[place] += [text for text in texts if text not in placed[place]]
    head = [line for text in placed[()] for line in _comment_lines(text, "")]
    return "\n".join([*head, *_Layout(placed).mapping(document, (), "")]) + "\n"


def _comment_lines(text: str, indent: str) -> Iterator[str]:
    shown = " ".join(text[:_LONGEST_COMMENT].split())
    first = f"{indent}# "
    plain = "".join(c if c.isprintable() and c.isascii() else "?" for c in shown)
    yield from textwrap.wrap(
        plain,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=first,
        break_long_words=False,
        break_on_hyphens=False,
    )


class _Layout:
    def __init__(self, comments: Comments) -> None:
        self._comments = comments
        self._around = {
            location[:length] for location in comments for length in range(len(location))
        }
        """Locations with a comment at or below them."""

    def mapping(
        self, value: Mapping[str, object], location: Location, indent: str
    ) -> Iterator[str]:
        for key, inner in value.items():
            place = (*location, key)
            for text in self._comments.get(place, ()):
                yield from _comment_lines(text, indent)
            yield from self._entry(key, inner, place, indent)

    def _entry(self, key: str, value: object, location: Location, indent: str) -> Iterator[str]:
        head = as_yaml({key: None}).removesuffix(" null")
        # No person writes a key so long that it needs its own line.
        nested = isinstance(value, dict | list) and value and not head.startswith("? ")
        if not nested:
            yield from (f"{indent}{line}" if line else "" for line in _plain(key, value))
            return
        flow = self._on_one_line({key: value}, location, indent)
        if flow is not None:
            yield flow
            return
        yield f"{indent}{head}"
        if isinstance(value, dict):
            yield from self.mapping(value, location, indent + _INDENT)
        elif isinstance(value, list):
            yield from self._list(value, location, indent)

    def _list(self, value: Sequence[object], location: Location, indent: str) -> Iterator[str]:
        for index, item in enumerate(value):
            place = (*location, index)
            for text in self._comments.get(place, ()):
                yield from _comment_lines(text, indent)
            flow = self._flow_item(item, place, indent)
            if flow is not None or not isinstance(item, dict) or not item:
                text = as_flow(item) if flow is None else flow
                yield f"{indent}- {text}"
                continue
            mark = "- "
            for line in self.mapping(item, place, indent + _INDENT):
                if mark == _INDENT or line.lstrip().startswith("#"):
                    # The comment of the first key is written above the item.
                    yield line if mark == _INDENT else line.removeprefix(_INDENT)
                else:
                    yield f"{indent}{mark}{line.removeprefix(indent + _INDENT)}"
                    mark = _INDENT

    def _flow_item(self, item: object, location: Location, indent: str) -> str | None:
        """Return an entry of a list on one line, except targets and metrics."""
        if len(location) <= 2 or location[-2] in {"metrics", "undecided"}:
            return None
        if not isinstance(item, dict | list) or location in self._around:
            return None
        text = as_flow(item)
        return text if len(indent) + len(text) + 2 <= _WIDTH else None

    def _on_one_line(self, entry: dict[str, object], location: Location, indent: str) -> str | None:
        """Return an entry of a mapping on one line, if it is short and simple."""
        ((key, value),) = entry.items()
        if len(location) == 1 or key in {"metrics", "undecided", "behavior", "servers"}:
            return None
        if location in self._around or _is_long(value):
            return None
        text = as_flow(entry)[1:-1]
        return f"{indent}{text}" if len(indent) + len(text) <= _WIDTH else None


def _plain(key: str, value: object) -> list[str]:
    """Write a scalar, of several lines as a block of text."""
    return as_yaml({key: value}, blocks=True).split("\n")


def _is_long(value: object) -> bool:
    """Return whether a value is better on several lines: lists of mappings, texts of several."""
    if isinstance(value, str):
        return "\n" in value
    if isinstance(value, dict):
        return any(map(_is_long, value.values()))
    if isinstance(value, list):
        several = len(value) > 1 and any(isinstance(item, dict) for item in value)
        return several or any(map(_is_long, value))
    return False


@dataclass
class ConfigurationFile:
    """A file of a configuration, before it is written."""

    document: dict[str, object]
    comments: dict[Location, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def text(self) -> str:
        """The content."""
        return as_text(self.document, self.comments)


def configuration_of(
    conversion: Conversion, written: Sequence[ImportedManifest]
) -> ConfigurationFile:
    """Return the configuration with the targets of ``written``."""
    targets = [manifest.target for manifest in written]
    names = {name for target in targets for name in queries_of(target)}
    queries = {name: query for name, query in conversion.shared.queries.items() if name in names}
    resources = _resources(conversion, targets)
    parts = (*queries.values(), *resources.values(), *targets)
    servers = {str(child(part, "server") or "") for part in parts}
    file = ConfigurationFile(
        {
            "prometheus": _prometheus(conversion, servers),
            **({"queries": queries} if queries else {}),
            **({"resourceQueries": resources} if resources else {}),
            "targets": targets,
        }
    )
    for name, texts in conversion.shared.server_comments.items():
        file.comments["prometheus", *(("servers", name) if name else ("url",))] += texts
    for name, texts in conversion.shared.query_comments.items():
        if name in queries:
            file.comments["queries", name] += texts
    for index, manifest in enumerate(written):
        for location, text in manifest.draft.comments:
            file.comments["targets", index, *location].append(text)
    return file


# -- objects in place of targets -------------------------------------------------------------------


def spec_of(conversion: Conversion, manifest: ImportedManifest) -> dict[str, object]:
    """Return a target as the spec of an object, with the queries that it names."""
    target, shared = manifest.target, conversion.shared.queries
    names = (name for name in queries_of(target) if name in shared)
    queries = {
        name: {"query": query} if isinstance(query := shared[name], str) else query
        for name in names
    }
    spec = {key: value for key, value in target.items() if key not in {"namespace", "undecided"}}
    return {**spec, **({"queries": queries} if queries else {})}


def objects_of(conversion: Conversion, written: Sequence[ImportedManifest]) -> Iterator[str]:
    """Yield the manifests of PromqlAutoscalers in place of targets, with distinct names."""
    taken: dict[str, set[str]] = defaultdict(set)
    for manifest in written:
        namespace = str(manifest.target["namespace"])
        name = free_name(manifest.manifest.name, taken[namespace])
        taken[namespace].add(name)
        comments: dict[Location, list[str]] = defaultdict(list)
        for location, text in manifest.draft.comments:
            comments["spec", *location].append(text)
        for query in queries_of(manifest.target):
            comments["spec", "queries", query] += conversion.shared.query_comments.get(query, ())
        for _, entry in entries(manifest.target, "undecided"):
            comments[()].append(f"undecided: {child(entry, 'field')}: {child(entry, 'why')}")
        metadata = {"name": name, "namespace": namespace}
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
        yield as_text({**document, "spec": spec_of(conversion, manifest)}, comments)


def _prometheus(conversion: Conversion, used: set[str]) -> dict[str, object]:
    servers = conversion.shared.servers
    others = {name: server for name, server in servers.items() if name and name in used}
    return {**servers.get("", {}), **({"servers": others} if others else {})}


def _resources(
    conversion: Conversion, targets: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    """Return `resourceQueries` of the resources that targets scale on."""
    used = {
        str(child(metric, key, "name"))
        for target in targets
        for _, metric in entries(target, "metrics")
        for key in ("resource", "containerResource")
    }
    used |= {"cpu"} if any("metrics" not in target for target in targets) else set()
    return {name: resource for name, resource in conversion.resources.items() if name in used}
