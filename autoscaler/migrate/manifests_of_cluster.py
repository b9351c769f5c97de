"""Reads the objects that an import converts, as they are in the cluster."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autoscaler import clock
from autoscaler.kubernetes.api import MALFORMED, Api, JsonObject, path_of, read_list
from autoscaler.kubernetes.failures import Failure, in_namespace, malformed

_PAGE = 500
_SECONDS = 30.0
"""For one list."""
_NOT_FOUND = 404
_LABELS = (
    "app.kubernetes.io/name in (prometheus-adapter,k8s-prometheus-adapter)",
    "app in (prometheus-adapter,k8s-prometheus-adapter,custom-metrics-apiserver)",
)
_NAMES = ("adapter-config", "prometheus-adapter", "prometheus-adapter-config")
_SEARCHES = (
    *({"labelSelector": labels} for labels in _LABELS),
    *({"fieldSelector": f"metadata.name={name}"} for name in _NAMES),
)
"""What the charts and manifests of prometheus-adapter give its ConfigMap."""
_USUAL_NAMESPACES = ("monitoring", "custom-metrics", "prometheus", "kube-system")
_SEARCHED = (
    f"no rules of prometheus-adapter were found: a ConfigMap with the name {' or '.join(_NAMES)}, "
    f"or with the label {' or '.join(_LABELS)}, was searched in {{}}: give its file with "
    "--adapter-rules"
)


class Collection(NamedTuple):
    """A kind of object, and where the API server has its objects."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool = True


COLLECTIONS = (
    Collection("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Collection("keda.sh/v1alpha1", "scaledobjects", "ScaledObject"),
    Collection("keda.sh/v1alpha1", "scaledjobs", "ScaledJob"),
    Collection("keda.sh/v1alpha1", "triggerauthentications", "TriggerAuthentication"),
    Collection(
        *("keda.sh/v1alpha1", "clustertriggerauthentications", "ClusterTriggerAuthentication"),
        namespaced=False,
    ),
)


_CONFIG_MAPS = Collection("v1", "configmaps", "ConfigMap")


class ClusterManifests:
    """Reads objects of the cluster, of one namespace or of all."""

    def __init__(self, api: Api, namespace: str = "") -> None:
        self._api = api
        self._namespace = namespace
        self.failures: list[str] = []
        """What could not be read, as sentences; a kind that the cluster does not know is none."""
        self.searched = ""
        """A sentence on where rules of prometheus-adapter were searched."""

    def autoscalers(self) -> Iterator[JsonObject]:
        """Yield HorizontalPodAutoscalers but those that KEDA made, and what KEDA keeps."""
        for one in COLLECTIONS:
            namespace = self._namespace if one.namespaced else ""
            for item in self._listed(one, namespace):
                if not _is_of_keda(item):
                    yield item

    def adapter_rules(self) -> Iterator[JsonObject]:
        """Yield the ConfigMaps in which prometheus-adapter may have its rules, wherever it runs."""
        items: list[JsonObject] = []
        readable: list[str] = []
        everywhere = not isinstance(self._pages(_CONFIG_MAPS, "", _SEARCHES[0]), Failure)
        others = [""] if everywhere else dict.fromkeys((self._namespace, *_USUAL_NAMESPACES))
        for place in others:
            pages = [self._pages(_CONFIG_MAPS, place, query) for query in _SEARCHES]
            found = [page for page in pages if not isinstance(page, Failure)]
            readable += [place] if found else []
            items += [item for page in found for item in page]
        places = "all namespaces" if everywhere else ", ".join(filter(None, readable))
        self.searched = _SEARCHED.format(places or "no namespace that this user may read")
        yield from {_key(item): item for item in items}.values()

    def _listed(self, of: Collection, namespace: str) -> Sequence[JsonObject]:
        """Return the objects of a collection; why there are none is a failure."""
        items = self._pages(of, namespace, {})
        if isinstance(items, Failure):
            if items.status != _NOT_FOUND:
                self.failures.append(in_namespace(items, namespace))
            return []
        return items

    def _pages(
        self, of: Collection, namespace: str, query: dict[str, str]
    ) -> list[JsonObject] | Failure:
        """Return the objects of a collection, as `kubectl get -o yaml` shows them."""
        path = path_of(of.group_version, of.plural, namespace)
        items: list[JsonObject] = []
        deadline = clock.monotonic() + _SECONDS

        def get(more: dict[str, str]) -> JsonObject | Failure:
            return self._api.get(path, deadline, more)

        def add(page: list[JsonObject]) -> None:
            items.extend({"apiVersion": of.group_version, "kind": of.kind, **one} for one in page)

        try:
            answer = read_list(get, add, query, _PAGE)
        except MALFORMED:
            answer = malformed(self._api.server, of.plural)
        return answer if isinstance(answer, Failure) else items


def _key(item: JsonObject) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"].get("name", "")


def _is_of_keda(item: JsonObject) -> bool:
    """Return whether KEDA made an HPA: its ScaledObject is what is imported."""
    owners = item["metadata"].get("ownerReferences") or []
    kinds = (owner.get("kind") for owner in owners if isinstance(owner, dict))
    return "ScaledObject" in kinds and item.get("kind") == "HorizontalPodAutoscaler"
