"""What watched pods cost."""

import subprocess
import sys
from collections.abc import Callable

from autoscaler.adapters.cluster.pod_cache import PodCache
from autoscaler.adapters.cluster.pods import PodReader
from tests.adapters.watches import fleet


def test_a_pod_costs_little_memory(record_property: Callable[[str, object], None]) -> None:
    """Of kilobytes of JSON less than one is kept for each pod; the figure is printed."""
    command = [sys.executable, "-m", "tests.adapters.watches.pod_memory"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    kept, sent = map(int, done.stdout.split())
    record_property("bytes_per_pod", kept)
    print(f"{kept} bytes kept of {sent} sent for each pod")
    assert kept < 1000


def test_pods_that_nobody_selects_cost_nothing() -> None:
    """They are dropped as they come in."""
    cache = PodCache("shop", lambda: {"shop": frozenset({"app=x"})}, lambda _: None, PodReader())
    cache.begin()
    for page in fleet.pages(10, 20):
        cache.add(page)
    cache.commit("1")
    assert cache.pods("shop", "app=x") == ()
    assert cache._namespaces["shop"].matched == {}
