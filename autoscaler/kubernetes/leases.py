"""A Lease of `coordination.k8s.io/v1`: read it, replace the version that was read, and watch it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from autoscaler.config.shards import Shard
from autoscaler.kubernetes.api import MALFORMED, Api, JsonObject, path_of
from autoscaler.kubernetes.election import NEVER, Election, ElectionTimes, LeaseRecord
from autoscaler.kubernetes.failures import Failure, malformed, typed
from autoscaler.kubernetes.watch_requests import Cache

_GROUP_VERSION = "coordination.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the server sent it: its record, and the whole object, which writes preserve."""

    record: LeaseRecord
    document: JsonObject = field(repr=False)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the object."""
        return (self.document.get("metadata") or {}).get("annotations") or {}


class Leases:
    """One Lease, by its namespace and name.  Each method sends one request, once."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self.name = name
        self._metadata = {"name": name, "namespace": namespace}
        self._path = path_of(_GROUP_VERSION, "leases", namespace, name)

    def __str__(self) -> str:
        """Return the Lease's description, for messages."""
        return f"the Lease {self._metadata['namespace']}/{self.name}"

    def read(self, deadline: float) -> Lease | Failure | None:
        """Read the Lease; None if it does not exist."""
        lease = self._send("GET", self._path, deadline)
        missing = isinstance(lease, Failure) and lease.missing == self.name
        return None if missing else lease

    def list(self, deadline: float) -> Mapping[str, LeaseRecord] | Failure:
        """Return the records of all Leases of the namespace, by name."""
        answer = self._api.once("GET", self._path.rpartition("/")[0], deadline)
        if isinstance(answer, Failure):
            return answer
        try:
            return {_name_of(item): _lease_of(item).record for item in answer["items"]}
        except MALFORMED:
            return malformed(self._api.server, "something other than a list of Leases")

    def write(
        self,
        record: LeaseRecord,
        over: Lease | None,
        deadline: float,
        annotations: Mapping[str, str] | None = None,
    ) -> Lease | Failure:
        """Replace the Lease that was read by a record, or create the Lease if there was none.

        ``annotations`` with an empty value are removed; others that exist stay. 409 means that
        another process wrote it meanwhile, 404 that the Lease, or its namespace before the first
        one, does not exist.
        """
        spec = {
            "holderIdentity": record.holder,
            # Whole seconds, rounded up: other candidates may wait longer, never shorter.
            "leaseDurationSeconds": max(1, math.ceil(record.duration)),
            "acquireTime": _micro_time(record.acquired),
            "renewTime": _micro_time(record.renewed),
            "leaseTransitions": record.transitions,
        }
        old: JsonObject = {} if over is None else over.document
        said = {**({} if over is None else over.annotations), **(annotations or {})}
        kept = {name: value for name, value in said.items() if value != ""}
        metadata: JsonObject = {**(old.get("metadata") or self._metadata)}
        if kept or "annotations" in metadata:
            metadata["annotations"] = kept
        body: JsonObject = {
            **old,
            # Objects of a list have neither kind nor apiVersion.
            "apiVersion": _GROUP_VERSION,
            "kind": "Lease",
            "metadata": metadata,
            "spec": {**(old.get("spec") or {}), **spec},
        }
        if over is not None:
            return self._send("PUT", self._path, deadline, body)
        return self._send("POST", self._path.rpartition("/")[0], deadline, body)

    def _send(
        self, method: str, path: str, deadline: float, body: JsonObject | None = None
    ) -> Lease | Failure:
        answer = self._api.once(method, path, deadline, body=body)
        if isinstance(answer, Failure):
            return answer
        try:
            return _lease_of(answer)
        except MALFORMED:
            return malformed(self._api.server, "something that is not a Lease")


class LeaseCache(Cache):
    """One Lease of a namespace; ``changed`` receives each change, on the thread of the watch.

    It receives None if the Lease was deleted.
    """

    def __init__(self, namespace: str, name: str, changed: Callable[[Lease | None], None]) -> None:
        instead = "who leads is asked for once in a retryPeriod"
        path = path_of(_GROUP_VERSION, "leases", namespace)
        super().__init__("leases.coordination.k8s.io", namespace, instead, path)
        self.selector = {"fieldSelector": f"metadata.name={name}"}
        self._name = name
        self._changed = changed
        self._listed: Lease | None = None
        self._version: str | None = None

    def begin(self) -> None:
        """Begin a list."""
        self._listed = None

    def add(self, items: list[JsonObject]) -> None:
        """Add a page; a server may send other Leases than the requested one."""
        for item in items:
            lease = _lease_of(item)
            if _name_of(item) == self._name:
                self._listed = lease

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Use the list from now on."""
        self._put(self._listed)
        self._listed = None

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Apply an event."""
        if kind == "BOOKMARK":
            return
        lease = _lease_of(obj)
        if _name_of(obj) == self._name:
            self._put(None if kind == "DELETED" else lease)

    def clear(self) -> None:
        """Forget it: it is no longer watched."""
        self._version = None

    def _put(self, lease: Lease | None) -> None:
        version = None if lease is None else lease.record.version
        if version != self._version:
            self._version = version
            self._changed(lease)


def _lease_of(document: JsonObject) -> Lease:
    """Read a Lease; raises one of MALFORMED."""
    spec = document.get("spec") or {}
    record = LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        duration=spec.get("leaseDurationSeconds") or 0,
        acquired=_seconds(spec.get("acquireTime")),
        renewed=_seconds(spec.get("renewTime")),
        transitions=spec.get("leaseTransitions") or 0,
        version=document["metadata"]["resourceVersion"],
    )
    lease = Lease(typed(record), document)
    if not all(isinstance(text, str) for text in lease.annotations.values()):
        raise ValueError("an annotation is not a string")
    return lease


def _name_of(document: JsonObject) -> str:
    name = document["metadata"]["name"]
    if not isinstance(name, str):
        raise TypeError("its name is not a string")
    return name


def _seconds(micro_time: str | None) -> float | None:
    # In UTC: a time that is out of range there could not be written again.
    at = None if micro_time is None else datetime.fromisoformat(micro_time).astimezone(UTC)
    return None if at is None else at.timestamp()


def _micro_time(seconds: float | None) -> str | None:
    """Format a time as `metav1.MicroTime`: RFC 3339 in UTC with six decimals."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class OtherShards:
    """Leases of another number of shards that were held when this process took its own.

    Each counts until it has expired or is free. A Lease that is taken after ours does not count:
    its holder finds ours, and waits. ``name`` is the name of a Lease without shards.
    """

    def __init__(self, leases: Leases, name: str, own: Shard, times: ElectionTimes) -> None:
        self._leases, self._name, self._own, self._times = leases, name, own, times
        self._seen: dict[Shard, Election] = {}
        self._known: tuple[float, Mapping[Shard, float]] = (NEVER, {})
        """When our Lease was taken, and the end of each other Lease; infinite while held."""

    def since(self, namespace: str, led_since: float) -> float | None:
        """Return the time from which only we may write in a namespace; None before it."""
        looked, over = self._known
        since = max([led_since, *(at for shard, at in over.items() if shard.owns(namespace))])
        return None if looked != led_since or since == math.inf else since

    def look(self, led_since: float, deadline: float, steady: Callable[[], float]) -> str:
        """Read the other Leases unless all have ended; return what is not written, as words."""
        looked, over = self._known
        if looked == led_since and math.inf not in over.values():
            return ""
        found = self._leases.list(deadline)
        if isinstance(found, Failure):
            return f"; nothing is written before all Leases are known: {found.message}"
        now = steady()
        records = {Shard.of_lease(lease, self._name): record for lease, record in found.items()}
        if looked != led_since:
            others = [record for record in records if record and record.shards != self._own.shards]
            self._seen, over = {record: Election("", self._times) for record in others}, {}
        ends: dict[Shard, float] = {}
        for shard, election in self._seen.items():
            election.observe(records.get(shard), now)
            ends[shard] = math.inf if now < election.expires_at else min(over.get(shard, now), now)
        self._known = led_since, ends
        held = sorted(shard.lease(self._name) for shard, at in ends.items() if at == math.inf)
        return f"; what {', '.join(held)} may write is not written" if held else ""
