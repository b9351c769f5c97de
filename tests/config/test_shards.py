"""Which shard serves what, and what a configuration with `shards` is to each of them."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from autoscaler.config import ConfigError
from autoscaler.config.shards import Shard, ordinal, owner
from autoscaler.daemon.reload import FileSource
from tests.config.documents import loaded

ELECTION = "leaderElection: {enabled: true, namespace: ops, externalUrl: 'http://{hostname}.a'}\n"
TARGET = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 2"
PLACES = [f"c{number}" for number in range(12)]


@pytest.mark.parametrize(
    ("shards", "owners"),
    [
        (1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (3, [1, 0, 2, 0, 0, 1, 0, 0, 2, 1, 2, 1]),
        (4, [1, 0, 2, 0, 3, 1, 0, 0, 2, 1, 3, 1]),
    ],
)
def test_owners_are_the_same_in_every_process_and_release(shards: int, owners: list[int]) -> None:
    """A release that hashed otherwise would let two shards have one cluster during an update."""
    assert [owner(place, shards) for place in PLACES] == owners


def test_another_shard_gets_an_even_part_and_nothing_else_moves() -> None:
    names = [f"namespace-{number}" for number in range(2000)]
    for before, after in pairwise(range(1, 9)):
        moved = [name for name in names if owner(name, before) != owner(name, after)]
        assert {owner(name, after) for name in moved} == {before}
        assert len(moved) == pytest.approx(len(names) / after, rel=0.15)
    sizes = Counter(owner(name, 4) for name in names)
    assert max(sizes.values()) < 1.15 * len(names) / 4


@pytest.mark.parametrize(
    ("pod", "number"),
    [("autoscaler-0", 0), ("autoscaler-12", 12), ("autoscaler-7d9f8b-x2x4z", None), ("a3", None)],
)
def test_the_number_of_a_shard_is_at_the_end_of_the_name(
    pod: str, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ordinal({"POD_NAME": pod}) == number
    monkeypatch.setattr("socket.gethostname", lambda: pod)
    assert ordinal({}) == number


@pytest.mark.parametrize(
    ("shard", "lease"), [(Shard(2, 4), "auto.scaler-2-of-4"), (Shard(0, 1), "auto.scaler")]
)
def test_the_name_of_a_lease_has_its_shard(shard: Shard, lease: str) -> None:
    assert shard.lease("auto.scaler") == lease
    assert Shard.of_lease(lease, "auto.scaler") == shard
    for other in ("other", "autoXscaler", "auto.scaler-1", "auto.scaler-1-of-0"):
        assert Shard.of_lease(other, "auto.scaler") is None


def document(shards: str, key: str = "cluster", election: str = ELECTION) -> str:
    """Return a configuration with a target in each of the places, which are of a key."""
    clusters = ", ".join(f"{{name: {place}, context: {place}}}" for place in PLACES)
    several = key == "cluster"
    more = "namespace: shop, " if several else ""
    targets = "".join(f"- {{{key}: {place}, {more}{TARGET}}}\n" for place in PLACES)
    head = f"prometheus: {{url: http://p}}\nshards: {shards}\n"
    head += f"clusters: [{clusters}]\n" if several else ""
    return f"{head}{election}targets:\n{targets}"


@pytest.mark.parametrize("key", ["cluster", "namespace"])
def test_a_process_has_the_targets_of_its_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr("autoscaler.config.shards.socket.gethostname", lambda: "pod-5")
    config = loaded(tmp_path, document("4", key))
    own = config.of_shard(5)
    mine = [place for place in PLACES if owner(place, 4) == 1]
    assert [target.key.partition("/")[0] for target in own.targets] == mine
    assert own.other_shard(f"{mine[0]}/shop/Deployment/web") is None
    assert own.other_shard("c4/shop/web") == (3, "http://pod-3.a")
    assert config.other_shard("c4/shop/web") is None
    assert list(own.connections) == (mine if key == "cluster" else [""])
    assert own.lease_shard == (None if key == "cluster" else own.shard)


@pytest.mark.parametrize(
    ("shards", "election", "message"),
    [
        ("0", ELECTION, "shards: must be at least 1 (got 0)"),
        ("1001", ELECTION, "shards: must be at most 1000 (got 1001)"),
        ("half", ELECTION, 'shards: must be a whole number (got "half")'),
        ("2", "", "shards: needs leaderElection: {enabled: true}: its Leases keep"),
    ],
)
def test_a_wrong_number_of_shards_is_refused(
    tmp_path: Path, shards: str, election: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, document(shards, election=election))
    assert message in str(refused.value)


def test_a_process_without_a_number_is_refused(tmp_path: Path) -> None:
    config = loaded(tmp_path, document("2"))
    with pytest.raises(ConfigError, match=r"shards: the number of this process .*--shard N.*got 2"):
        FileSource(config.path, config.sources).own(config)


def test_the_only_shard_needs_no_number(tmp_path: Path) -> None:
    config = loaded(tmp_path, document("1"))
    own = FileSource(config.path, config.sources).own(config)
    assert len(own.targets) == len(PLACES)
