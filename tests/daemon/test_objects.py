"""Objects and files as one source: what counts, what is refused, and what stays in doubt."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from autoscaler import clock
from autoscaler.config import ConfigError, load
from autoscaler.config.objects import MOST_BYTES, RefusalReason
from autoscaler.daemon.objects import ObjectSource, ObjectStates
from autoscaler.daemon.reload import FileSource
from autoscaler.kubernetes.objects import ObjectName, ObjectRecord, ObjectWatch
from tests.config.test_objects import spec

HEAD = "prometheus: {url: http://p:9090}\n"
FILE_TARGET = (
    "targets:\n- {namespace: shop, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, "
    "kind: Deployment, name: of-the-file}}\n"
)


class KnownObjects:
    """The objects of a cluster as a watch knows them."""

    def __init__(self) -> None:
        self.objects: dict[ObjectName, ObjectRecord] = {}
        self.complete = True
        self._version = 0

    def put(self, name: str, *, namespace: str = "shop", created: int = 0, **more: object) -> None:
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        text = json.dumps(spec(scaleTargetRef=ref) | more).encode()
        kept = text if len(text) <= MOST_BYTES else None
        when = f"2026-01-01T00:00:{created:02d}Z"
        self.objects[namespace, name] = ObjectRecord(
            namespace, name, f"uid of {name}", 1, when, kept, len(text), None
        )
        self._version += 1

    def remove(self, name: str, namespace: str = "shop") -> None:
        del self.objects[namespace, name]
        self._version += 1

    def records(self) -> tuple[Mapping[ObjectName, ObjectRecord], bool]:
        return dict(self.objects), self.complete

    def version(self) -> object:
        return self._version


class Source:
    """An `ObjectSource` of one cluster, and what it told."""

    def __init__(self, folder: Path, text: str = "objects: {enabled: true}\n") -> None:
        self.file = folder / "autoscaler.yaml"
        self.file.write_text(HEAD + text)
        self.known: KnownObjects | None = KnownObjects()
        self.told: ObjectStates | None = None
        config = load(self.file)
        files = FileSource(config.path, config.sources)
        self.source = ObjectSource(files, config, self._watches, self._tell)

    def _watches(self) -> Mapping[str, ObjectWatch]:
        return {} if self.known is None else {"": cast("ObjectWatch", self.known)}

    def _tell(self, states: ObjectStates) -> None:
        self.told = states

    @property
    def objects(self) -> KnownObjects:
        assert self.known is not None
        return self.known

    def targets(self) -> list[str]:
        """Return the names of the targets after a look."""
        if self.source.changed():
            self._read = [target.key for target in self.source.read().config.targets]
        return [key.rpartition("/")[2] for key in self._read]

    def refused(self) -> dict[str, RefusalReason]:
        assert self.told is not None
        return {key[2]: why.reason for key, (_, why) in self.told.refused.items()}


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_objects_come_and_go(source: Source) -> None:
    source.objects.put("a")
    assert source.targets() == ["a"]
    source.objects.put("b")
    assert source.targets() == ["a", "b"]
    source.objects.remove("a")
    assert source.targets() == ["b"]
    assert not source.source.changed()


def test_the_file_wins_then_the_older_object(tmp_path: Path) -> None:
    source = Source(tmp_path, "objects: {enabled: true}\n" + FILE_TARGET)
    source.objects.put("of-the-file")
    source.objects.put("newer", created=2, scaleTargetRef=spec()["scaleTargetRef"])
    source.objects.put("older", created=1, scaleTargetRef=spec()["scaleTargetRef"])
    assert source.targets() == ["of-the-file", "web"]
    assert source.refused() == dict.fromkeys(("of-the-file", "newer"), RefusalReason.CONFLICT)
    assert source.told is not None
    assert {key[2] for key, _ in source.told.accepted.values()} == {"older"}


def test_a_quota_of_objects_keeps_the_oldest(tmp_path: Path) -> None:
    source = Source(tmp_path, "objects: {enabled: true, quotas: {objects: 1}}\n")
    source.objects.put("b", created=1)
    source.objects.put("a", created=2)
    source.objects.put("c", created=3, namespace="other")
    assert source.targets() == ["b", "c"]
    assert source.refused() == {"a": RefusalReason.QUOTA}
    source.objects.remove("b")
    assert source.targets() == ["a", "c"]


def test_objects_stay_while_their_cluster_is_unknown(source: Source) -> None:
    source.objects.put("a")
    assert source.targets() == ["a"]
    before, source.known = source.objects, None
    assert source.targets() == ["a"]
    source.known = KnownObjects()
    source.objects.complete = False
    assert source.targets() == ["a"]
    source.known = before
    source.objects.put("b")
    assert source.targets() == ["a", "b"]


def test_an_invalid_file_is_refused_and_the_objects_go_on(source: Source) -> None:
    source.objects.put("a")
    assert source.targets() == ["a"]
    source.file.write_text("targets: [")
    for _ in range(3):
        source.source.changed()
    with pytest.raises(ConfigError):
        source.source.read()
    source.objects.put("b")
    assert source.source.changed()
    read = source.source.read()
    assert [target.object_name for target in read.config.targets] == ["a", "b"]
    assert set(read.refused) == {str(source.file)}


def test_an_object_that_changes_without_end_waits_and_the_others_do_not(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    source.objects.put("a")
    source.targets()
    changes = 0
    for number in range(20):
        source.objects.put("a", maxReplicas=10 + number)
        changes += source.source.changed()
        if source.source.changed():
            source.source.read()
    assert changes == 5
    source.objects.put("b")
    assert source.targets() == ["a", "b"]
    now += 10.0
    assert source.source.changed()
    (a, _) = source.source.read().config.targets
    assert a.spec.max_replicas == 29


def test_an_object_that_is_too_large_is_refused(source: Source) -> None:
    source.objects.put("a", queries={"rps": {"query": "x" * MOST_BYTES}})
    assert source.targets() == []
    assert source.refused() == {"a": RefusalReason.INVALID}


def test_objects_are_no_targets_when_they_are_disabled(source: Source) -> None:
    source.objects.put("a")
    assert source.targets() == ["a"]
    source.file.write_text(HEAD + FILE_TARGET)
    while not source.source.changed():
        pass
    assert source.targets() == ["of-the-file"]
    assert source.told == ObjectStates({}, {})
