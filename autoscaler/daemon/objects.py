"""The objects in the clusters as a source of targets, next to the files."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from autoscaler import clock
from autoscaler.config import Config, ConfigError
from autoscaler.config.objects import (
    MOST_BYTES,
    ObjectPolicy,
    ObjectRefusal,
    RefusalReason,
    ScalingObject,
    conflict,
)
from autoscaler.core.extensions import Mode
from autoscaler.core.target import QueryKey, Target
from autoscaler.daemon.object_status import WrittenObject
from autoscaler.daemon.reload import ConfigSource, LoadedConfiguration
from autoscaler.kubernetes.objects import ObjectRecord, ObjectWatch, is_same
from autoscaler.token_bucket import TokenBucket

_BURST, _REFILL_SECONDS = 5, 10.0
"""The changes of one object that count at once, and the seconds per further change."""
_MOST_BUCKETS = 10_000

ObjectKey = tuple[str, str, str]
"""Cluster, namespace and name."""

Watches = Mapping[str, ObjectWatch]
"""By cluster, without clusters that cannot be reached."""


class ObjectStates(NamedTuple):
    """What became of all objects: the accepted ones by target, and the refused ones."""

    accepted: Mapping[str, tuple[ObjectKey, ObjectRecord]]
    refused: Mapping[ObjectKey, tuple[ObjectRecord, ObjectRefusal]]

    def accepted_in(self, cluster: str) -> dict[str, WrittenObject]:
        """Return the accepted objects of a cluster by target."""
        return {
            target: WrittenObject(record.namespace, record.name, record.generation, record.status)
            for target, (key, record) in self.accepted.items()
            if key[0] == cluster
        }

    def refused_in(
        self, cluster: str
    ) -> dict[tuple[str, str], tuple[int, ObjectRefusal, bytes | None]]:
        """Return the refused objects of a cluster by namespace and name."""
        return {
            key[1:]: (record.generation, why, record.status)
            for key, (record, why) in self.refused.items()
            if key[0] == cluster
        }


class ObjectSource:
    """A `ConfigSource` of files, and of the objects that they permit.

    ``watches`` returns the watches of the clusters; ``tell`` is informed of what became of the
    objects, at each reading; with ``shadow`` no target is written. A file that is invalid does not
    stop the objects. While the objects of a cluster or namespace are unknown, the last known ones
    stay. An object that changes without end is followed more slowly.
    """

    def __init__(
        self,
        files: ConfigSource,
        config: Config,
        watches: Callable[[], Watches],
        tell: Callable[[ObjectStates], None],
        *,
        shadow: bool = False,
    ) -> None:
        self._files = files
        self._shadow = shadow
        self._config = config
        """The files' configuration in force, for this process."""
        self._policy = ObjectPolicy(config)
        self._watches = watches
        self._tell = tell
        self._files_changed = True
        self._refusal: ConfigError | None = None
        """Why the files as they are now are not in force."""
        self._versions: object = None
        self._objects: dict[ObjectKey, ObjectRecord] = {}
        """The objects in force, or refused."""
        self._pending: dict[ObjectKey, ObjectRecord | None] = {}
        """Newer ones, None for a removed one."""
        self._made: dict[ObjectKey, Target | ObjectRefusal] = {}
        self._buckets: dict[ObjectKey, TokenBucket] = {}
        self._accepted: dict[str, ObjectKey] = {}
        """By the keys of their targets."""
        self._refused: dict[ObjectKey, ObjectRefusal] = {}

    def changed(self) -> bool:
        """Return whether a file has changed, or an object that may be followed now."""
        self._files_changed = self._files.changed() or self._files_changed
        versions = {name: watch.version() for name, watch in self._watches().items()}
        if versions != self._versions:
            self._versions = versions
            self._compare()
        return self._files_changed or self._has_due()

    def first(self) -> Config:
        """Return the configuration at the start, with the objects that are known by now."""
        self._files_changed = False
        self.changed()
        return self._take().config

    def read(self) -> LoadedConfiguration:
        """Return the files' targets and the accepted objects'. Raises ConfigError for the files.

        Files are read if they changed, or if nothing did: then an operator asks for it.
        """
        if self._files_changed or not self._has_due():
            self._files_changed = False
            try:
                self._config, self._refusal = self._files.read().config, None
            except ConfigError as error:
                self._refusal = error
                if not self._has_due():
                    raise
            else:
                self._policy, self._made = ObjectPolicy(self._config), {}
                self._compare()
        return self._take()

    def _compare(self) -> None:
        """Note the objects that differ from the ones in force."""
        clusters, watches = self._config.connections.keys(), self._watches()
        self._pending = {key: None for key in self._objects if key[0] not in clusters}
        for cluster in clusters if self._config.objects.enabled else ():
            watch = watches.get(cluster)
            if watch is None:
                continue
            records, complete = watch.records()
            for (namespace, name), record in records.items():
                key = (cluster, namespace, name)
                old = self._objects.get(key)
                if not is_same(old, record):
                    self._pending[key] = record
                elif old is not record:
                    self._objects[key] = record  # Its status was written.
            if complete:
                known = (key for key in self._objects if key[0] == cluster)
                self._pending |= {key: None for key in known if key[1:] not in records}
        if not self._config.objects.enabled:
            self._pending = dict.fromkeys(self._objects)

    def _has_due(self) -> bool:
        return any(self._is_due(key) for key in self._pending)

    def _is_due(self, key: ObjectKey) -> bool:
        bucket = self._buckets.get(key)
        if bucket is None or self._pending[key] is None:
            return True
        until = bucket.empty_until()
        return until is None or until <= clock.monotonic()

    def _take(self) -> LoadedConfiguration:
        """Put the changes that are due in force, and return the whole."""
        now = clock.monotonic()
        due = [key for key in self._pending if self._is_due(key)]
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets = {}
        for key in due:
            record = self._pending.pop(key)
            self._made.pop(key, None)
            if record is None:
                self._objects.pop(key, None)
                self._buckets.pop(key, None)
                continue
            if key in self._objects:
                bucket = self._buckets.setdefault(key, TokenBucket(_BURST, _REFILL_SECONDS, now))
                bucket.take(now)
            self._objects[key] = record
        accepted, self._refused = self._judged()
        self._accepted = {target.key: key for key, target in accepted.items()}
        self._tell(self._states())
        faults = {str(self._config.path): self._refusal} if self._refusal is not None else {}
        return LoadedConfiguration(self._merged([*accepted.values()]), faults)

    def tell_again(self) -> None:
        """Tell what became of the objects, with the statuses that they have now."""
        self._compare()
        self._tell(self._states())

    def _states(self) -> ObjectStates:
        objects = self._objects
        return ObjectStates(
            {
                target: (key, objects[key])
                for target, key in self._accepted.items()
                if self._is_own(target)
            },
            {
                key: (objects[key], why)
                for key, why in self._refused.items()
                if self._is_own(key[0] or key[1])
            },
        )

    def _judged(self) -> tuple[dict[ObjectKey, Target], dict[ObjectKey, ObjectRefusal]]:
        """Accept the objects, the oldest first, as far as nothing else scales their workloads."""
        quotas = self._config.objects.quotas
        owners = {target.key: "a target of the configuration" for target in self._config.targets}
        objects: dict[tuple[str, str], int] = defaultdict(int)
        queries: dict[tuple[str, str], set[QueryKey]] = defaultdict(set)
        accepted: dict[ObjectKey, Target] = {}
        refused: dict[ObjectKey, ObjectRefusal] = {}
        for key, record in sorted(self._objects.items(), key=_age):
            made = self._judge(key, record)
            if isinstance(made, Target):
                owner, place = owners.get(made.key), made.place
                asked = queries[place] | {query.key for query in made.all_queries}
                if owner is not None:
                    made = conflict(made, owner)
                elif objects[place] >= quotas.objects:
                    made = _over(f"{quotas.objects} objects", "objects")
                elif len(asked) > quotas.queries:
                    made = _over(f"{quotas.queries} different queries", "queries")
                else:
                    objects[place] += 1
                    queries[place] = asked
                    owners[made.key] = f'PromqlAutoscaler "{record.name}"'
                    accepted[key] = made
                    continue
            refused[key] = made
        return accepted, refused

    def _judge(self, key: ObjectKey, record: ObjectRecord) -> Target | ObjectRefusal:
        """Return the target of an object, made once for each spec."""
        made = self._made.get(key)
        if made is None:
            cluster, namespace, name = key
            if record.spec is None:
                made = _too_large(record)
            else:
                spec = json.loads(record.spec)
                made = self._policy.target(ScalingObject(namespace, name, spec, cluster))
            self._made[key] = made
        return made

    def _merged(self, of_objects: Sequence[Target]) -> Config:
        config = self._config
        own = [*self._own(of_objects)]
        return config.model_copy(update={"targets": (*config.targets, *own)}) if own else config

    def _own(self, targets: Sequence[Target]) -> Iterator[Target]:
        """Yield the targets of this process' shard, in shadow if it never writes."""
        for target in targets:
            if self._is_own(target.key):
                extensions = replace(target.extensions, mode=Mode.SHADOW)
                yield replace(target, extensions=extensions) if self._shadow else target

    def _is_own(self, place: str) -> bool:
        return self._config.shard is None or self._config.shard.owns(place)


def _age(item: tuple[ObjectKey, ObjectRecord]) -> tuple[str, ObjectKey]:
    return item[1].created, item[0]


def _over(quota: str, which: str) -> ObjectRefusal:
    message = f"the namespace has {quota} already, the quota `objects.quotas.{which}`"
    return ObjectRefusal(RefusalReason.QUOTA, message)


def _too_large(record: ObjectRecord) -> ObjectRefusal:
    if record.size > MOST_BYTES:
        message = f"spec: has {record.size:,} bytes, and may have {MOST_BYTES:,}"
        return ObjectRefusal(RefusalReason.INVALID, message)
    message = "the specs of the namespace are too large together; delete or shorten some"
    return ObjectRefusal(RefusalReason.QUOTA, message)
