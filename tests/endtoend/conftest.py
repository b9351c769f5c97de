"""Two Deployments, `a` and `b`, and a Prometheus that demands four replicas of each."""

import pytest

from tests.worlds.daemon import Document
from tests.worlds.world import DEMAND, World


@pytest.fixture
def document(world: World) -> Document:
    """Return a configuration of the target `a`; there are Deployments `a` and `b`."""
    world.want(DEMAND)
    for name in ("a", "b"):
        world.deploy(name)
    return world.document(world.target("a"))
