"""The parts of a request: its verb, and the resource and object that its path names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    ``group`` is None where the path is not one of a resource; the resource need not exist.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    body: bytes = b""
    group: str | None = None
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def verb(self) -> str:
        """The verb as RBAC names it; the method in lower case where it stands for none."""
        if self.group is None or not self.plural:
            return self.method.lower()
        if not self.name and self.method == "GET" and self.watch:
            return "watch"
        verbs = _OBJECT_VERBS if self.name else _COLLECTION_VERBS
        other = {"POST": "create", "PUT": "update", "PATCH": "patch"}
        return verbs.get(self.method) or other.get(self.method, self.method.lower())

    @property
    def watch(self) -> bool:
        """Whether the request is a watch."""
        return self.query.get("watch", "") in {"1", "true", "True", "TRUE"}


def parse(method: str, target: str, content_type: str = "", body: bytes = b"") -> Request:
    """Read a request's target: the path's parts as Kubernetes lays them out, and the query."""
    url = urlsplit(target)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    plain = content_type.partition(";")[0].strip().lower()
    parts = [unquote(part) for part in url.path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Request(method, url.path, query, plain, body)
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 3 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = ([*rest, "", "", ""])[:3]
    if len(rest) > 3:
        subresource = "/".join(rest[2:])
    return Request(
        method, url.path, query, plain, body, group, version, plural, namespace, name, subresource
    )
