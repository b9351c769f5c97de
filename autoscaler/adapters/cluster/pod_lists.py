"""Lists of pods, page by page."""

from typing import TypedDict, cast
from urllib.parse import quote

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure, malformed
from autoscaler.adapters.cluster.pods import MALFORMED, PodJson, PodReader
from autoscaler.adapters.cluster.watch_requests import PAGE_SHRINKS
from autoscaler.core.observation import Pod, Unavailable

_PAGE = 500
"""As the API's own clients page."""
_GONE = 410
_LONGEST = 200

_ListMetadataJson = TypedDict("_ListMetadataJson", {"continue": str}, total=False)


class _PodListJson(TypedDict, total=False):
    metadata: _ListMetadataJson
    items: list[PodJson]


class Pods:
    """Fits `app.ports.PodLister`."""

    def __init__(self, api: Api, *, page_size: int = _PAGE) -> None:
        self._api = api
        self._page_size = page_size
        self._reader = PodReader()

    def pods(self, namespace: str, selector: str, deadline: float) -> tuple[Pod, ...] | Unavailable:
        """List the pods that match, all of one resourceVersion."""
        pods = self._pages(namespace, selector, deadline)
        if isinstance(pods, Failure) and pods.status == _GONE:
            # A later page came too late for its resourceVersion.  A list in one piece cannot.
            pods = self._page(namespace, {"labelSelector": selector}, deadline, into=[])
        if isinstance(pods, Failure):
            return Unavailable(pods.message)
        return tuple(pods[0])

    def _pages(
        self, namespace: str, selector: str, deadline: float
    ) -> tuple[list[Pod], str] | Failure:
        pods: list[Pod] = []
        limit = self._page_size
        query = {"labelSelector": selector}
        while True:
            page = self._page(namespace, query | {"limit": str(limit)}, deadline, into=pods)
            if isinstance(page, Failure) and page.too_large and limit > 1:
                limit = max(1, limit // PAGE_SHRINKS)
                continue
            if isinstance(page, Failure) or not page[1]:
                return page
            query["continue"] = page[1]

    def _page(
        self, namespace: str, query: dict[str, str], deadline: float, into: list[Pod]
    ) -> tuple[list[Pod], str] | Failure:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        answer = self._api.get(path, deadline, query)
        if isinstance(answer, Failure):
            return answer
        page = cast("_PodListJson", answer)
        try:
            into.extend(map(self._reader.read, page["items"]))
            return into, page["metadata"].get("continue", "")
        except MALFORMED as error:
            return malformed(
                self._api.server,
                self._api.said(f"a list of pods that cannot be read: {error}", _LONGEST),
            )
