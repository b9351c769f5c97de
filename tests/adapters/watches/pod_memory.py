"""`python -m tests.adapters.watches.pod_memory`: bytes kept and sent for each watched pod.

A process of its own: what other threads allocate would count.
"""

import gc
import json
import tracemalloc

from autoscaler.kubernetes.pods import PodCache
from tests.worlds.cluster import fleet

_APPS = 100
_PODS_EACH = 20


def measure() -> tuple[int, int]:
    """Fill a cache, ask for each tuple once, and return the bytes kept and sent for a pod."""
    selectors = frozenset(f"app=app-{app},env=prod" for app in range(_APPS))
    cache = PodCache("shop", lambda: {"shop": selectors}, lambda _: None)
    pages = [json.dumps(page).encode() for page in fleet.pages(_APPS, _PODS_EACH)]
    gc.collect()
    tracemalloc.start()
    cache.begin()
    for page in pages:
        cache.add(json.loads(page))
    cache.commit("1")
    for selector in selectors:
        pods = cache.pods("shop", selector)
        if pods is None or len(pods) != _PODS_EACH:
            raise RuntimeError(f"not all pods of {selector} are there: {pods}")
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    pods_in_all = _APPS * _PODS_EACH
    return kept // pods_in_all, sum(map(len, pages)) // pods_in_all


if __name__ == "__main__":
    print(*measure())
