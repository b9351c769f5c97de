"""Who leads which clusters, as commands tell it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from autoscaler.core.target import TargetName
from autoscaler.core.text import printable
from autoscaler.rendering.answers import LeaderState

_MOST_NAMED = 10
"""So many clusters of one leader are named."""


def who_leads(leaders: Iterable[LeaderState], keys: Iterable[str] | None) -> Iterator[str]:
    """Yield a sentence for each process that leads clusters of some targets, or any if None.

    Nothing is said of the only cluster, which has no name, while the daemon itself leads it.
    """
    clusters = None if keys is None else {TargetName.of(key).cluster for key in keys}
    by_leader = defaultdict[str, list[str]](list)
    for one in leaders:
        if (clusters is None or one.cluster in clusters) and (one.cluster or not one.leading):
            by_leader[_words(one)].append(printable(one.cluster))
    for words, names in by_leader.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        of = ", ".join(names[:_MOST_NAMED]) + more
        yield f"{of}: {words}" if of else f"this daemon stands by: {words}"


def _words(one: LeaderState) -> str:
    if one.leading:
        return "led by this daemon"
    if not one.holder:
        return "nobody is known to lead"
    return f"led by {one.holder}" + (f", see {one.url}" if one.url else "")
