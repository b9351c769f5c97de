"""What all objects of the Kubernetes API have in common: paths, metadata, lists in pages."""

from collections.abc import Callable
from typing import TypedDict, cast
from urllib.parse import quote

from autoscaler.adapters.cluster.failures import Failure

JsonObject = dict[str, object]
"""A JSON object as the API server sent it."""

MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading JSON raises that has not the form of its kind."""

_PAGE_SHRINKS = 4
"""A page that is too large is asked for again with its objects divided by this."""


class ManagedFieldsJson(TypedDict, total=False):
    """`ManagedFieldsEntry`."""

    manager: str
    time: str
    fieldsV1: dict[str, object]


class OwnerJson(TypedDict, total=False):
    """`OwnerReference`."""

    kind: str
    name: str


class MetadataJson(TypedDict, total=False):
    """`ObjectMeta`: the fields that are read."""

    namespace: str
    name: str
    uid: str
    resourceVersion: str
    generation: int
    deletionTimestamp: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    managedFields: list[ManagedFieldsJson] | None
    ownerReferences: list[OwnerJson] | None


class _ObjectJson(TypedDict):
    metadata: MetadataJson


ListMetadataJson = TypedDict(
    "ListMetadataJson", {"continue": str, "resourceVersion": str}, total=False
)


class ListJson(TypedDict, total=False):
    """A list of objects of one kind."""

    metadata: ListMetadataJson
    items: list[JsonObject]


def metadata_of(obj: JsonObject) -> MetadataJson:
    """Return the metadata of an object.  Raises KeyError."""
    return cast("_ObjectJson", obj)["metadata"]


def path_of(group_version: str, plural: str, namespace: str = "", name: str = "") -> str:
    """Return the path of a collection, or of one object; without a namespace, of all namespaces.

    ``group_version`` is that of the collection, such as `apps/v1`, or `v1` for the core group.
    """
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{where}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


def read_list(
    ask: Callable[[dict[str, str]], JsonObject | Failure],
    add: Callable[[list[JsonObject]], None],
    query: dict[str, str],
    limit: int,
) -> str | Failure:
    """Pass the objects of a list to ``add``, page by page, and return its resourceVersion.

    ``ask`` sends the query; a page that is too large is asked for again with fewer objects; a
    ``limit`` of 0 asks for one page.  Raises one of MALFORMED for what is no list.
    """
    while True:
        answer = ask(query | {"limit": str(limit)} if limit else query)
        if isinstance(answer, Failure):
            if not answer.too_large or limit <= 1:
                return answer
            limit = max(1, limit // _PAGE_SHRINKS)
            continue
        page = cast("ListJson", answer)
        add(page["items"])
        metadata = page["metadata"]
        if not metadata.get("continue"):
            return metadata.get("resourceVersion", "")
        query = query | {"continue": metadata["continue"]}
        del answer, page  # the next one may need its memory
