"""The results of importers: targets, and the queries and servers that they share."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from autoscaler.config.documents import Location, child, entries
from autoscaler.core.spec import SOURCES

Query = str | Mapping[str, object]
"""An entry of `queries`: PromQL, or a mapping with `query` and what else is needed."""

ALWAYS_ZERO = "vector(0)"
"""The query of a target whose windows alone set the count; any server answers it."""

_NAME = re.compile(r"[!-$&-.0-~]{1,200}")
"""The valid names of a metric: printable, without / and %."""
_OUTSIDE = re.compile(r"[^a-z0-9]+")
_LONGEST_LABEL = 40


class SecretValue(NamedTuple):
    """A file with one value of a Secret or ConfigMap, under the name in the configuration."""

    file: str
    namespace: str
    name: str
    key: str
    kind: Literal["Secret", "ConfigMap"] = "Secret"


class Comment(NamedTuple):
    """A sentence above a place in a target, for readers of the file; () is its top."""

    location: Location
    text: str


@dataclass
class TargetDraft:
    """The target from a document: its keys in the order in which they are written.

    It lacks `undecided`, which follows from the refused keys of the document's `Fields`.
    """

    target: dict[str, object]
    comments: list[Comment] = field(default_factory=list)
    refusal: str = ""
    """Why there is no target; empty if there is one."""
    secrets: list[SecretValue] = field(default_factory=list)


@dataclass
class SharedSettings:
    """The common settings of the targets of one configuration."""

    cron_triggers: int = 0
    """Windows with compared starts and ends, which take up to 50 ms each."""
    queries: dict[str, Query] = field(default_factory=dict)
    query_comments: dict[str, list[str]] = field(default_factory=dict)
    """Sentences above a query, by its name."""
    servers: dict[str, dict[str, object]] = field(default_factory=dict)
    """Settings as in `prometheus`, by name; the name of the default server is ""."""
    server_comments: dict[str, list[str]] = field(default_factory=dict)
    _by_query: dict[str, str] = field(default_factory=dict)

    def query(self, wanted: str, query: Query, *comments: str) -> str:
        """Add a query under a unique name, and return the name.

        An equal query is written once: its existing name is returned.
        """
        name = self._by_query.get(key := repr(query))
        if name is None:
            name = free_name(wanted if _NAME.fullmatch(wanted) else "query", self.queries)
            self._by_query[key] = name
            self.queries[name] = query
        if comments:
            said = self.query_comments.setdefault(name, [])
            said += [comment for comment in comments if comment not in said]
        return name

    def server(self, settings: Mapping[str, object], *comments: str) -> str:
        """Add a server with these settings, including `url`; return its name."""
        known = (name for name, value in self.servers.items() if value == settings)
        name = next(known, None)
        if name is None:
            label = _label(str(settings.get("url", "")))
            name = free_name(label, {*self.servers, "default"})
            self.servers[name] = dict(settings)
        if comments:
            said = self.server_comments.setdefault(name, [])
            said += [comment for comment in comments if comment not in said]
        return name

    def choose_default(self, targets: Sequence[dict[str, object]]) -> list[int] | None:
        """Make the server the default that all targets name; return None if there is one.

        Otherwise return the positions of the targets that need a server and name none. A target
        whose queries name one server uses it for all of its metrics.
        """
        found = [self._servers_of(target) for target in targets]
        named = [others if len(others := names - {""}) == 1 else names for names in found]
        every = {name for names in named for name in names}
        if len(every) != 1 or "" in every:
            for target, names, others in zip(targets, found, named, strict=True):
                if names != others:
                    (target["server"],) = others
            return [index for index, names in enumerate(named) if "" in names]
        (name,) = every
        self.servers[""] = self.servers.pop(name)
        self.server_comments[""] = self.server_comments.pop(name, [])
        for key, query in self.queries.items():
            if child(query, "server") == name and isinstance(query, Mapping):
                rest = {word: value for word, value in query.items() if word != "server"}
                self.queries[key] = rest if len(rest) > 1 else str(rest["query"])
        return None

    def _servers_of(self, target: Mapping[str, object]) -> set[str]:
        """Return the servers that the metrics of a target name; "" for metrics without one."""
        queries = [self.queries.get(name) for name in queries_of(target)]
        names = {str(child(query, "server") or "") for query in queries if query != ALWAYS_ZERO}
        if "metrics" not in target or len(queries) < len(list(entries(target, "metrics"))):
            names.add("")
        return names


def external(name: str, kind: object, value: object) -> dict[str, object]:
    """Return a metric of type External; without a value its target is undecided."""
    key = "value" if kind == "Value" else "averageValue"
    target = {"type": kind, **({} if value is None else {key: value})}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def queries_of(target: Mapping[str, object]) -> Iterator[str]:
    """Yield the names of the queries that a target uses."""
    for _, metric in entries(target, "metrics"):
        for key in SOURCES.values():
            name = child(metric, key, "metric", "name")
            if isinstance(name, str):
                yield name
    hold = child(target, "holdScaleDownQuery", "name")
    if isinstance(hold, str):
        yield hold


def _label(url: str) -> str:
    """Return a DNS label for a server: the first part of its host."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    first = host.partition(".")[0] if not host.replace(".", "").isdecimal() else ""
    return _OUTSIDE.sub("-", first.lower())[:_LONGEST_LABEL].strip("-") or "prometheus"


def free_name(wanted: str, taken: Mapping[str, object] | set[str]) -> str:
    """Return a name that is not taken: the wanted one, or with a number."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name
