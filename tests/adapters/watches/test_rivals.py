"""Others who scale the same object, from sync to sync on a real API server."""

import math
import threading
from contextlib import ExitStack
from dataclasses import replace

from autoscaler import clock
from autoscaler.adapters.cluster import Api
from autoscaler.core.contention import FIELD_MANAGER
from autoscaler.core.decision import Decision, ForeignChange, Zone
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.sync.ports import DEFAULT_CLUSTER, Ports
from autoscaler.sync.syncer import Syncer
from tests.adapters.watches.targets import SLOW, await_scale, has_count, watching
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest
from tests.worlds.cluster.others import (
    HAND_MADE,
    autoscaler,
    await_controller,
    create,
    path_of,
    set_count,
)
from tests.worlds.memory import T0, Memory, answer, external


class Instance:
    """One instance of the autoscaler: its syncs at instants that the test gives."""

    def __init__(
        self,
        stack: ExitStack,
        api: Api,
        one: Target,
        memory: Memory,
        *,
        leads: bool | None = None,
    ) -> None:
        """Take part in an election unless ``leads`` is None, and never win or lose it."""
        self.target = one
        self.watched = stack.enter_context(watching(api, [one], pace=SLOW))
        clusters = {DEFAULT_CLUSTER: self.watched}
        since = -math.inf if leads is None else clock.steady()
        world = Ports(
            {"": memory}, clusters, memory, leads_since=lambda: None if leads is False else since
        )
        self.syncer = stack.enter_context(Syncer(Flags(), world, threading.Event()))
        self.memory = memory

    def sync(self, count: int, now: float) -> Decision:
        """Sync once the watch shows a count."""
        ref = self.target.spec.scale_target_ref
        await_scale(self.watched, self.target.namespace, ref, lambda seen: has_count(count, seen))
        self.syncer.sync([self.target], now, 10.0)
        return self.memory.results[-1].decision


def test_a_foreign_change_is_noticed_and_a_third_reversal_holds_us(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """The decision has the counts and the manager; after three reversals nothing is written."""
    memory = Memory(answers={"queue": answer(150)})
    path = f"{manifests.deployments(shop)}/web/scale"
    with ExitStack() as stack:
        ours = Instance(stack, lone_api, external(shop, "web"), memory)
        first = ours.sync(3, T0)
        assert (first.desired, first.written, first.foreign) == (5, True, None)
        for turn in (1, 2, 3):
            now = T0 + 60 * turn
            memory.answers["queue"] = answer(150, now=now)
            set_count(lone_cluster, path, 3, "kubectl")
            decision = ours.sync(3, now)
            assert decision.foreign == ForeignChange(5, 3, "kubectl", reversal=True)
            assert decision.written is (turn < 3)
            assert decision.held_until == (None if turn < 3 else decision.time + 600)
        held = ours.sync(3, T0 + 181)
        assert (held.held_until is not None, held.written) == (True, False)
        assert lone_cluster.get(path).body["spec"]["replicas"] == 3


def test_another_instance_of_ours_is_nobody_else(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """To a follower the leader's write is no foreign change; one by kubectl against it is."""
    path = f"{manifests.deployments(shop)}/web/scale"
    with ExitStack() as stack:
        one = external(shop, "web")
        leader, follower = (
            Instance(stack, lone_api, one, Memory(answers={"queue": answer(150)}), leads=leads)
            for leads in (True, False)
        )
        assert follower.sync(3, T0).written is False
        assert leader.sync(3, T0).written is True
        assert follower.sync(5, T0 + 15).foreign is None
        set_count(lone_cluster, path, 4, "kubectl")
        seen = follower.sync(4, T0 + 30)
        assert seen.foreign == ForeignChange(5, 4, "kubectl", reversal=True)


def test_a_leader_by_another_lease_is_somebody_else(lone_api: Api, shop: str) -> None:
    """Two lead, each by a Lease of its own: each notices the other, and one holds in the end."""
    wants_four = external(shop, "web")
    at_most_two = replace(wants_four, spec=replace(wants_four.spec, max_replicas=2))
    with ExitStack() as stack:
        up, down = (
            Instance(stack, lone_api, one, Memory(answers={"queue": answer(120)}), leads=True)
            for one in (wants_four, at_most_two)
        )
        assert up.sync(3, T0).foreign is None
        assert down.sync(4, T0).foreign is None
        for _ in range(2):
            assert up.sync(2, T0).foreign == ForeignChange(4, 2, FIELD_MANAGER, reversal=True)
            assert down.sync(4, T0).foreign == ForeignChange(2, 4, FIELD_MANAGER, reversal=True)
        held = up.sync(2, T0)
        assert held.foreign == ForeignChange(4, 2, FIELD_MANAGER, reversal=True)
        assert (held.held_until, held.written) == (held.time + 600, False)


def test_a_target_of_an_hpa_is_left_alone_until_that_is_gone(
    lone_cluster: ClusterUnderTest, lone_api: Api, shop: str
) -> None:
    """At the first sync and later it is refused, with a reason that names the other."""
    memory = Memory(answers={"queue": answer(150)})
    create(lone_cluster, shop, autoscaler("by-hand"))
    with ExitStack() as stack:
        ours = Instance(stack, lone_api, external(shop, "web"), memory)
        ref = ours.target.spec.scale_target_ref
        refused = ours.sync(3, T0)
        assert (refused.zone, refused.rescale) == (Zone.CONTROLLED, False)
        assert refused.events[0].message.startswith(f"{HAND_MADE} controls this target too")
        lone_cluster.request("DELETE", f"{path_of(shop)}/by-hand")
        await_controller(ours.watched, shop, ref, None)
        assert ours.sync(3, T0 + 15).written is True
        create(lone_cluster, shop, autoscaler("by-hand"))
        await_controller(ours.watched, shop, ref, HAND_MADE)
        memory.answers["queue"] = answer(300, now=T0 + 30)
        assert ours.sync(5, T0 + 30).zone is Zone.CONTROLLED
