"""What the manifests become -> the configuration, in one file or one for each namespace."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.config.documents import Location, child, entries
from autoscaler.migrate.conversion import Conversion, Imported
from autoscaler.migrate.drafts import queries_of
from autoscaler.migrate.layout import as_text

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_OTHERS = "others"


@dataclass
class ConfigurationFile:
    """A file of a configuration, before it is written."""

    document: dict[str, object]
    comments: dict[Location, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def text(self) -> str:
        """What stands in it."""
        return as_text(self.document, self.comments)


def configuration_of(conversion: Conversion, written: Sequence[Imported]) -> ConfigurationFile:
    """Return the configuration with the targets of ``written``, in one file."""
    targets = [one.target for one in written]
    names = {name for target in targets for name in queries_of(target)}
    queries = {name: one for name, one in conversion.shared.queries.items() if name in names}
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
    for index, one in enumerate(written):
        _comment(file, ("targets", index), one)
    return file


def _comment(file: ConfigurationFile, place: Location, imported: Imported) -> None:
    for location, text in imported.draft.comments:
        file.comments[*place, *location].append(text)


def _prometheus(conversion: Conversion, used: set[str]) -> dict[str, object]:
    servers = conversion.shared.servers
    others = {name: one for name, one in servers.items() if name and name in used}
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
    return {name: one for name, one in conversion.resources.items() if name in used}


def split(
    conversion: Conversion, written: Sequence[Imported], folder: str
) -> tuple[ConfigurationFile, dict[str, ConfigurationFile]]:
    """Return the main file, and by its name in ``folder`` one for each namespace.

    A query that several of them use stands in the main file.
    """
    main = configuration_of(conversion, written)
    by_namespace: dict[str, list[Imported]] = defaultdict(list)
    for one in written:
        namespace = str(one.target["namespace"])
        by_namespace[namespace if _PLAIN.fullmatch(namespace) else _OTHERS].append(one)
    users: dict[str, set[str]] = defaultdict(set)
    for namespace, those in by_namespace.items():
        for one in those:
            for name in queries_of(one.target):
                users[name].add(namespace)
    every = main.document.pop("queries", {})
    queries = every if isinstance(every, dict) else {}
    shared = {name: one for name, one in queries.items() if len(users[name]) > 1}
    files = {}
    for namespace, those in by_namespace.items():
        own = {name: one for name, one in queries.items() if users[name] == {namespace}}
        file = ConfigurationFile(
            {**({"queries": own} if own else {}), "targets": [one.target for one in those]}
        )
        for name in own:
            file.comments["queries", name] += main.comments.pop(("queries", name), [])
        for index, one in enumerate(those):
            _comment(file, ("targets", index), one)
        files[f"{folder}/{namespace}.yaml"] = file
    main.comments = defaultdict(
        list, {place: texts for place, texts in main.comments.items() if place[:1] != ("targets",)}
    )
    document = {key: one for key, one in main.document.items() if key != "targets"}
    main.document = {**document, "include": list(files), **({"queries": shared} if shared else {})}
    return main, files
