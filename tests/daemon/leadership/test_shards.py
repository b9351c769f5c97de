"""Shards: what another number of them holds is not written, by the rule and by real daemons."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from autoscaler.config.shards import Shard, owner
from autoscaler.kubernetes import Api, Failure, Leases
from autoscaler.kubernetes.election import ElectionTimes, LeaseRecord
from autoscaler.kubernetes.leases import OtherShards
from tests.worlds.cluster.accounts import Account
from tests.worlds.daemon import DaemonProcess, Document, external, target, write_config
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.waiting import wait_until

# -- the rule ------------------------------------------------------------------------------------

LOST = Failure("no answer came", transient=True)
SHOP = next(f"n{number}" for number in range(99) if owner(f"n{number}", 3) == 0)
"""A namespace of shard 0 of 3."""
HELD = LeaseRecord("them", 15.0, version="1")


class Listed(Leases):
    """The Leases of a namespace, as the test says, at an instant that it says."""

    def __init__(self) -> None:
        super().__init__(cast(Api, None), "ops", "autoscaler-0-of-4")
        self.found: dict[str, LeaseRecord] | Failure = {}
        self.asked = 0

    def list(self, deadline: float) -> dict[str, LeaseRecord] | Failure:  # noqa: ARG002 - ours
        self.asked += 1
        return self.found


@dataclass
class Rule:
    """The rule for shard ``own``, and its world."""

    leases: Listed = field(default_factory=Listed)
    others: OtherShards = field(init=False)

    def __post_init__(self) -> None:
        own = Shard(owner(SHOP, 4), 4)
        self.others = OtherShards(self.leases, "autoscaler", own, ElectionTimes())

    def look(self, at: float, **found: LeaseRecord) -> str:
        """Look at the Leases; their names are short for those of `_` and `-`."""
        names = {name.replace("_", "-"): record for name, record in found.items()}
        self.leases.found = {f"autoscaler{name[1:]}": value for name, value in names.items()}
        return self.others.look(100.0, 0.0, lambda: at)


def test_nothing_is_written_before_all_leases_are_known() -> None:
    rule = Rule()
    rule.leases.found = LOST
    assert "no answer came" in rule.others.look(100.0, 0.0, lambda: 101.0)
    assert rule.others.since(SHOP, 100.0) is None
    assert rule.look(102.0) == ""
    assert rule.others.since(SHOP, 100.0) == 100.0
    assert rule.others.since(SHOP, 150.0) is None


BLOCKING = {"a_0_of_3": HELD}
FREED, RENEWED = LeaseRecord("", 1.0, version="2"), LeaseRecord("them", 15.0, version="2")


@pytest.mark.parametrize(
    ("looks", "since"),
    [
        # A Lease of the same number of shards cannot own the namespace; one without shards does.
        ([(101.0, BLOCKING)], None),
        ([(101.0, {"a_1_of_3": HELD})], 100.0),
        ([(101.0, {"a": HELD})], None),
        ([(101.0, {"a_0_of_4": HELD})], 100.0),
        ([(101.0, {"another_of_something": HELD})], 100.0),
        # It blocks until it is free, and longer if it was deleted or renewed.
        ([(101.0, BLOCKING), (105.0, {})], None),
        ([(101.0, BLOCKING), (105.0, {"a_0_of_3": FREED})], 105.0),
        ([(101.0, BLOCKING), (105.0, {"a_0_of_3": RENEWED})], None),
        # It expires, counted from when it was seen to an answer that still shows the same.
        ([(101.0, BLOCKING), (115.0, BLOCKING)], None),
        ([(101.0, BLOCKING), (115.0, BLOCKING), (116.5, BLOCKING)], 116.5),
        # The holder of a Lease that is taken later sees ours and waits.
        ([(101.0, {}), (103.0, BLOCKING)], 100.0),
    ],
)
def test_a_lease_of_another_number_of_shards_blocks_its_namespaces(
    looks: Sequence[tuple[float, dict[str, LeaseRecord]]], since: float | None
) -> None:
    """The new owner leads there since that Lease was over."""
    rule = Rule()
    texts = [rule.look(at, **leases) for at, leases in looks]
    assert rule.others.since(SHOP, 100.0) == since
    assert since != 100.0 or rule.leases.asked == 1, "without a blocking Lease nothing is asked"
    is_named = "autoscaler-0-of-3" in texts[-1]
    assert is_named is (since is None and any("a_0_of_3" in leases for _, leases in looks))


# -- real daemons ----------------------------------------------------------------------------------

TIMES = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "300ms"}
LEASE_SECONDS = 6.0
PLACES = [f"c{number}" for number in range(8)]


@dataclass
class Shards:
    """Daemons over the places, each of which is a cluster, or a namespace of the one cluster."""

    several: bool
    folder: Path
    prometheus: str
    stack: ExitStack
    accounts: dict[str, Account] = field(default_factory=dict)
    daemons: dict[int, DaemonProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place in PLACES:
            account = self.accounts.setdefault(place if self.several else "", Account())
            account.deploy("shop" if self.several else place, "web")

    def document(self, number: int, shards: int) -> Document:
        """Return a daemon's configuration; each target is to have another count each second."""
        reached = {
            name: str(self.folder / f"{name}-of-{number}.kubeconfig") for name in self.accounts
        }
        clusters = [{"name": name, "kubeconfig": path} for name, path in reached.items()]
        where: Document = {"clusters": clusters}
        if not self.several:
            where = {"kubernetes": {"kubeconfig": reached[""]}}
        rules: Document = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max"}
        rules["policies"] = [{"type": "Pods", "value": 100, "periodSeconds": 1}]
        free = {"maxReplicas": 20, "behavior": {"scaleUp": rules, "scaleDown": rules}}
        metric = external("demand", 1)
        targets = [
            target("shop", "web", metric, cluster=place, **free)
            if self.several
            else target(place, "web", metric, **free)
            for place in PLACES
        ]
        return {
            "prometheus": {"url": self.prometheus},
            "syncPeriod": "1s",
            "tolerance": 0,
            "shards": shards,
            "leaderElection": TIMES
            | {
                "enabled": True,
                "namespace": "shop" if self.several else PLACES[0],
                "identity": f"daemon{number}",
            },
            "queries": {"demand": "2 + floor(vector(time())) % 7"},
            "targets": targets,
            **where,
        }

    def start(self, number: int, shards: int) -> None:
        for name, account in self.accounts.items():
            path = self.folder / f"{name}-of-{number}.kubeconfig"
            if not path.exists():
                account.kubeconfig(f"daemon{number}", path, self.stack)
        file = write_config(self.folder / f"{number}.yaml", self.document(number, shards))
        daemon = DaemonProcess(file, {}, "--shard", str(number))
        self.daemons[number] = self.stack.enter_context(daemon)

    def change(self, shards: int) -> None:
        """Tell all daemons, one after the other, as pods get a changed ConfigMap."""
        for number, daemon in self.daemons.items():
            count = len(daemon.events("reloaded"))
            daemon.write(self.document(number, shards))
            daemon.wait_event("reloaded", count + 1)

    def writers(self) -> dict[str, list[str]]:
        """Return by place who wrote its scale so far, in the order of the writes.

        Fails for a write by a process without the Lease, or while another Lease of an owner was
        held that was taken before.
        """
        found: dict[str, list[str]] = {place: [] for place in PLACES}
        for name, account in self.accounts.items():
            holders: dict[str, str] = {}
            """By Lease, that taken last at the end."""
            for write in account.accepted():
                if write.holder is not None:
                    if holders.get(write.name) != write.holder:
                        holders.pop(write.name, None)
                        holders[write.name] = write.holder
                    continue
                place = name or write.namespace
                may = [
                    holder.partition("_")[0]
                    for lease, holder in holders.items()
                    if holder and (name or _is_owner(lease, place))
                ]
                assert may[:1] == [write.user], (place, write, holders)
                found[place].append(write.user)
        return found

    def wait_written(self, owners: Callable[[str], int], seconds: float = 90.0) -> None:
        """Wait until the last writes of each place are those of its owner."""
        wanted = {place: [f"daemon{owners(place)}"] * 2 for place in PLACES}

        def is_written() -> bool:
            return {place: by[-2:] for place, by in self.writers().items()} == wanted

        wait_until(f"writes by {wanted}", is_written, timeout=seconds, interval=0.2)


def _is_owner(lease: str, namespace: str) -> bool:
    shard = Shard.of_lease(lease, "autoscaler")
    return shard is not None and shard.owns(namespace)


@pytest.fixture(params=[True, False], ids=["clusters", "namespaces"])
def shards(
    request: pytest.FixtureRequest, tmp_path: Path, prometheus_server: PrometheusServer
) -> Iterator[Shards]:
    """Give the daemons' world."""
    with ExitStack() as stack:
        yield Shards(request.param, tmp_path, prometheus_server.url, stack)


def test_three_shards_become_four_and_three_again(shards: Shards) -> None:
    for number in range(3):
        shards.start(number, 3)
    shards.wait_written(lambda place: owner(place, 3))
    shards.start(3, 3)
    shards.daemons[3].wait_event("started")

    before = {place: len(by) for place, by in shards.writers().items()}
    shards.change(4)
    shards.wait_written(lambda place: owner(place, 4))
    moved = [place for place in PLACES if owner(place, 4) == 3]
    assert 0 < len(moved) < len(PLACES) / 2
    # A shard's own Lease is another one then, and its standby may hold the old one for a moment.
    for place, by in shards.writers().items() if shards.several else ():
        assert len(set(by[before[place] :])) == (2 if place in moved else 1)

    shards.change(3)
    # The fourth stands by for the first one; a cluster of these that it led is not moved.
    kept = moved if shards.several else []
    shards.wait_written(lambda place: 3 if place in kept else owner(place, 3))
    shards.daemons[0].kill()
    shards.wait_written(lambda place: owner(place, 3) or 3)
    shards.start(0, 3)
    shards.daemons[0].wait_event("started")
    shards.daemons[3].stop(signal.SIGTERM)
    shards.wait_written(lambda place: owner(place, 3))
    for daemon in shards.daemons.values():
        daemon.stop()
        events = {line["event"] for line in daemon.lines}
        assert not {"fault", "sync_failed", "replicas_changed_by_other"} & events
