"""The annotations of scaled objects that are ours: read where no watch shows them, and written."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.discovery import ScalableKinds
from autoscaler.adapters.cluster.failures import Failure, malformed
from autoscaler.adapters.cluster.objects import MALFORMED, ListJson, metadata_of, path_of
from autoscaler.adapters.cluster.scale_json import annotations_of
from autoscaler.adapters.cluster.scales import Scales
from autoscaler.core.observation import Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.transport.observer import UNOBSERVED, Observer

FIELD_MANAGER = "autoscaler-pause"
"""The manager of the annotations in an object's managedFields: not the one of the replicas."""

_MERGE_PATCH = "application/merge-patch+json"
_REFUSALS = frozenset({403, 404, 405})


class Annotations:
    """Reads and writes annotations of objects of any kind that can be scaled."""

    def __init__(self, api: Api, kinds: ScalableKinds) -> None:
        self._api = api
        self._kinds = kinds

    def read(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> tuple[tuple[str, str], ...] | Failure:
        """Return those of ours, as `annotations_of` does; none of an object that does not exist.

        It is listed by its name, since to list is the right that a watch needs too.
        """
        resource = self._kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return resource
        path = path_of(resource.group_version, resource.plural, namespace)
        answer = self._api.get(path, deadline, {"fieldSelector": f"metadata.name={ref.name}"})
        if isinstance(answer, Failure):
            return answer
        try:
            found = cast("ListJson", answer)["items"]
            return annotations_of(metadata_of(found[0])) if found else ()
        except MALFORMED:
            return malformed(self._api.server, f"no list of {resource.plural}")

    def write(
        self,
        namespace: str,
        ref: ScaleTargetRef,
        values: Mapping[str, str | None],
        deadline: float,
    ) -> Failure | None:
        """Set annotations, or remove those whose value is None; return why that failed."""
        resource = self._kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return resource
        path = path_of(resource.group_version, resource.plural, namespace, ref.name)
        # What was carried out and not answered may be sent again.
        answer = self._api.retrier.call(
            lambda: self._api.once(
                "PATCH",
                path,
                deadline,
                query={"fieldManager": FIELD_MANAGER},
                body={"metadata": {"annotations": dict(values)}},
                content_type=_MERGE_PATCH,
            ),
            deadline,
        )
        return answer if isinstance(answer, Failure) else None


class AnnotatedScales:
    """Fits `sync.ports.ScaleReader`: a scale, and by a second request the object's annotations.

    The scale subresource has none.  Where they may not be read the scale is without them, and the
    ``observer`` is told once; where they cannot, nothing may be decided.
    """

    def __init__(
        self, scales: Scales, annotations: Annotations, observer: Observer = UNOBSERVED
    ) -> None:
        self._scales = scales
        self._annotations = annotations
        self._observer = observer
        self._told = threading.Lock()

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | Unavailable:
        """Read the scale with the object's annotations."""
        scale = self._scales.read(namespace, ref, deadline)
        if isinstance(scale, Unavailable):
            return scale
        annotations = self._annotations.read(namespace, ref, deadline)
        if not isinstance(annotations, Failure):
            return replace(scale, annotations=annotations)
        if annotations.status not in _REFUSALS:
            return Unavailable(annotations.message)
        if self._told.acquire(blocking=False):
            sentence = f"it is not known whether annotations pause a target: {annotations.message}"
            self._observer.watch_changed(ok=False, sentence=sentence)
        return scale
