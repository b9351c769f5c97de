"""Pods in groups (semantics 3): every rule, and both sides of every border."""

import pytest

from autoscaler.core.decision import PodGroups, Unready, UnreadyRule
from autoscaler.core.observation import Pod, Sample
from autoscaler.core.per_pod import group_pods
from autoscaler.core.spec import Flags
from tests.core.builders import BASE, FALSE, TRUE, UNKNOWN, pod

READY = PodGroups(1, (), (), ())
UNREADY = PodGroups(0, ("p0",), (), ())
MISSING = PodGroups(0, (), ("p0",), ())
IGNORED = PodGroups(0, (), (), ("p0",))
FLAGS = Flags(cpu_initialization_period=300.0, initial_readiness_delay=30.0)


def grouped(one: Pod, resource: str = "cpu", at: float | None = 0.0) -> PodGroups:
    """Group one pod with a sample at ``at`` with a window of 60 s, or without a sample."""
    samples = {} if at is None else {"p0": Sample(500, BASE + at, 60.0)}
    return group_pods([one], samples, resource, FLAGS, BASE)


@pytest.mark.parametrize("resource", ["cpu", "memory", ""])
@pytest.mark.parametrize(
    ("one", "at", "groups"),
    [
        (pod(), 0.0, READY),
        (pod(deleted=True), 0.0, IGNORED),
        (pod(deleted=True), None, IGNORED),
        (pod(deleted=True, phase="Pending"), 0.0, IGNORED),
        (pod(phase="Failed"), 0.0, IGNORED),
        (pod(phase="Failed"), None, IGNORED),
        (pod(phase="Pending"), 0.0, UNREADY),
        (pod(phase="Pending"), None, UNREADY),
        (pod(), None, MISSING),
        (pod(ready=None), None, MISSING),
        (pod(phase="Succeeded"), 0.0, READY),
        (pod(phase="Succeeded"), None, MISSING),
        (pod(phase="Unknown"), 0.0, READY),
        (pod(ready=UNKNOWN), 0.0, READY),
    ],
)
def test_rules_for_any_resource(
    resource: str, one: Pod, at: float | None, groups: PodGroups
) -> None:
    """Deleting and Failed pods are ignored, Pending ones unready, those without sample missing."""
    assert grouped(one, resource, at) == groups


INITIALIZING = -299.0
BORDER = -300.0
"""Start + 300 s == now: the initialization period is over."""


@pytest.mark.parametrize(
    ("one", "at", "groups"),
    [
        (pod(ready=None), 0.0, UNREADY),
        (pod(start=None), 0.0, UNREADY),
        (pod(ready=None, start=None), 0.0, UNREADY),
        # Within the initialization period.
        (pod(start=INITIALIZING, ready=FALSE), 0.0, UNREADY),
        (pod(start=INITIALIZING, transition=-100.0), 0.0, READY),
        # A sample counts once a whole window lies after the transition: -60 + 60 is not > 0.
        (pod(start=INITIALIZING, transition=-60.0), 0.0, READY),
        (pod(start=INITIALIZING, transition=-59.75), 0.0, UNREADY),
        (pod(start=INITIALIZING, transition=-100.0), -40.0, READY),
        (pod(start=INITIALIZING, transition=-100.0), -40.25, UNREADY),
        (pod(start=INITIALIZING, transition=None), 0.0, READY),
        (pod(start=INITIALIZING, ready=UNKNOWN, transition=-100.0), 0.0, READY),
        (pod(start=INITIALIZING, ready=UNKNOWN, transition=-10.0), 0.0, UNREADY),
        # On the border of the period the sample's window no longer matters.
        (pod(start=BORDER, transition=-10.0), 0.0, READY),
        (pod(start=BORDER + 0.25, transition=-10.0), 0.0, UNREADY),
        # After it: unready only if it never became ready, i.e. went unready near its start.
        (pod(start=-1000.0, ready=FALSE, transition=-971.0), 0.0, UNREADY),
        (pod(start=-1000.0, ready=FALSE, transition=-970.25), 0.0, UNREADY),
        (pod(start=-1000.0, ready=FALSE, transition=-970.0), 0.0, READY),
        (pod(start=-1000.0, ready=FALSE, transition=-10.0), 0.0, READY),
        (pod(start=-1000.0, ready=FALSE, transition=None), 0.0, UNREADY),
        (pod(start=-1000.0, ready=TRUE, transition=-999.0), 0.0, READY),
        (pod(start=-1000.0, ready=UNKNOWN, transition=-999.0), 0.0, READY),
    ],
)
def test_rules_for_cpu(one: Pod, at: float, groups: PodGroups) -> None:
    """CPU of a pod that is starting says nothing of its load; all comparisons are strict."""
    assert grouped(one, "cpu", at) == groups


@pytest.mark.parametrize("resource", ["memory", "", "nvidia.com/gpu"])
@pytest.mark.parametrize(
    "one",
    [
        pod(ready=None),
        pod(start=None),
        pod(start=INITIALIZING, ready=FALSE),
        pod(start=-1000.0, ready=FALSE, transition=-999.0),
    ],
)
def test_cpu_rules_are_for_cpu_only(resource: str, one: Pod) -> None:
    """Unready running pods count fully for every other resource."""
    assert grouped(one, resource) == READY


def test_groups_keep_the_order_of_pods() -> None:
    """Names come in the order of the list; the ready are only counted."""
    pods = [
        pod("z", phase="Pending"),
        pod("a"),
        pod("b", phase="Pending"),
        pod("m"),
        pod("c", deleted=True),
        pod("d"),
    ]
    samples = {name: Sample(1, BASE, 60.0) for name in ("a", "d", "stranger")}
    assert group_pods(pods, samples, "cpu", FLAGS, BASE) == PodGroups(2, ("z", "b"), ("m",), ("c",))


def test_the_flags_are_obeyed() -> None:
    """Period and delay come from the flags; zero switches either off."""
    starting = pod(start=-10.0, transition=-5.0)
    samples = {"p0": Sample(500, BASE, 60.0)}
    assert group_pods([starting], samples, "cpu", Flags(), BASE) == UNREADY
    off = Flags(cpu_initialization_period=0.0, initial_readiness_delay=0.0)
    assert group_pods([starting], samples, "cpu", off, BASE) == READY
    never = pod(start=-400.0, ready=FALSE, transition=-400.0)
    assert group_pods([never], samples, "cpu", Flags(), BASE) == UNREADY
    assert group_pods([never], samples, "cpu", off, BASE) == READY


@pytest.mark.parametrize(
    ("one", "rule", "until"),
    [
        (pod(phase="Pending"), UnreadyRule.PENDING, None),
        (pod(ready=None), UnreadyRule.NO_STATUS, None),
        (pod(start=None), UnreadyRule.NO_STATUS, None),
        (pod(start=-100.0, ready=FALSE, transition=-90.0), UnreadyRule.NOT_READY, 200.0),
        (pod(start=-100.0, ready=TRUE, transition=-20.0), UnreadyRule.SAMPLE_WINDOW, 40.0),
        (pod(start=-290.0, ready=TRUE, transition=-20.0), UnreadyRule.SAMPLE_WINDOW, 10.0),
        (pod(start=-400.0, ready=FALSE, transition=-400.0), UnreadyRule.NEVER_READY, None),
    ],
)
def test_an_unready_pod_says_by_which_rule_and_until_when(
    one: Pod, rule: UnreadyRule, until: float | None
) -> None:
    """A full sample window ends its rule, the initialization period both; the rest has no end."""
    (unready,) = grouped(one).unready_by
    assert unready == Unready("p0", rule, None if until is None else BASE + until)
