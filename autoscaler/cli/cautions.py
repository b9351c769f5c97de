"""Valid settings that are probably mistakes: `validate` warns of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, permutations

from autoscaler.cli.asked_queries import QueryToCheck, QueryUse, queries_of, sources_of
from autoscaler.config import durations
from autoscaler.config.documents import Location, child, entries
from autoscaler.config.fields import listen_address
from autoscaler.config.problems import MOST_PROBLEMS, Finding, Problem, located
from autoscaler.config.promql import selectors_of
from autoscaler.config.settings import Config
from autoscaler.core.breaker import Breaker
from autoscaler.schedules import may_be_open_together, seconds_open

_MOST_WINDOWS = 30
"""The most schedules of a target that are compared in pairs."""


def cautions_on(config: Config, content: bytes | None = None) -> list[Problem]:
    """Return at most `MOST_PROBLEMS` warnings on a valid file; ``content`` as for `load`."""
    problems: list[Problem] = []
    for source in sources_of(config, content):
        doubts = _cautions(source.value, config)
        findings = list(islice(doubts, MOST_PROBLEMS - len(problems)))
        if findings:
            problems += located(findings, source.value, str(source.path), source.places)
    asked = queries_of(config, content)
    found = dict.fromkeys(chain(_of_ranges(asked), _of_shared_servers(asked, config)))
    return [*problems, *islice(found, MOST_PROBLEMS - len(problems))]


def _of_ranges(asked: Iterable[QueryToCheck]) -> Iterator[Problem]:
    """Find queries of metrics with a range that is neither understood nor set by `window`."""
    for place, use in ((check.place, use) for check in asked for use in check.uses):
        if not use.query.assumes_range:
            continue
        until = f"until then it counts as {durations.format_seconds(use.query.range_seconds)}"
        message = "it is not known how far back this PromQL reads: write its longest range as "
        yield Problem(*place, None, f"{message}`window` next to `query`; {until}")


def _of_shared_servers(asked: Iterable[QueryToCheck], config: Config) -> Iterator[Problem]:
    """Find queries that read the series of several clusters as if they were one."""
    labels = {cluster.name: cluster.series_labels.items() for cluster in config.clusters or ()}
    names = {name for own in labels.values() for name, _ in own}
    asking: dict[str, set[str]] = defaultdict(set)
    for target in config.targets:
        for query in target.all_queries:
            asking[query.server].add(target.cluster)
    for check in asked:
        matched = [
            {each.label for each in part.matchers} for part in selectors_of(check.key.promql)
        ]
        uses: list[QueryUse] = [*check.uses, *check.bounds, *check.holds]
        for use in uses:
            own, cluster = {*use.query.series_labels}, use.target.cluster
            others = asking[use.query.server] - {cluster}
            mixed = [other for other in others if own <= labels[other]]
            keys = () if use.selector is None else use.selector.keys
            if mixed and not all(names & {*keys, *by} for by in matched):
                pair = " and ".join(sorted((cluster, min(mixed))))
                message = f"counts series of {pair} in one Prometheus together: give each cluster "
                message += "`seriesLabels` of its own, and select by them in the query of an "
                message += 'External metric, a bound or a hold (=~".*" if all are meant)'
                yield Problem(*use.place, None, message)


def _cautions(document: object, config: Config) -> Iterator[Finding]:
    yield from _empty((), document, "scaleDownBreaker")
    yield from _of_breaker(document, config.breaker)
    yield from _of_web(document)
    yield from _of_clusters(document, config)
    for index, target in entries(document, "targets"):
        place: Location = ("targets", index)
        yield from _empty(place, target, "idle")
        yield from _of_fallback((*place, "fallback"), target)
        yield from _of_windows((*place, "schedules"), target)
        yield from _of_times((*place, "schedules"), target, config.sync_period)
        yield from _of_zeros(place, target)


def _empty(place: Location, around: object, key: str) -> Iterator[Finding]:
    """Find a key without a value that disables a rule, while an empty mapping would enable it."""
    if isinstance(around, Mapping) and key in around and around[key] is None:
        message = f"has no value, so that it is off; `{key}: {{}}` takes the defaults"
        yield Finding((*place, key), message, show_value=False)


def _of_breaker(document: object, breaker: Breaker | None) -> Iterator[Finding]:
    """Find a breaker share that rounds to no target: any scale-down would trip it."""
    if breaker is None or child(document, "scaleDownBreaker") is None:
        return
    least = -(-100 // breaker.share)
    if breaker.min_targets < least:
        message = f"{breaker.share}% of minTargets, which is {breaker.min_targets}, is less than "
        message += (
            f"one target: on a server with fewer than {least} targets a single scale-down would "
        )
        message += f"trip it, so none could happen; set minTargets to {least} or more"
        yield Finding(("scaleDownBreaker",), message, show_value=False)


def _of_web(document: object) -> Iterator[Finding]:
    """Find a public address at which other hosts are refused."""
    listen = child(document, "web", "listen")
    asked = child(document, "web", "tls", "clientAuthType") not in {None, "NoClientCert"}
    if listen is None or asked or child(document, "web", "auth") is not None:
        return
    if not listen_address(listen).is_loopback:
        message = "others reach it, but only clients on this machine are answered: set web.auth "
        message += "with web.tls, or web.tls.clientAuthType, or listen on a loopback address"
        yield Finding(("web", "listen"), message)


def _of_clusters(document: object, config: Config) -> Iterator[Finding]:
    """Find clusters without targets, and entries for the same cluster."""
    used = {target.cluster for target in config.targets}
    seen: dict[tuple[object, ...], object] = {}
    for index, cluster in entries(document, "clusters"):
        name, place = child(cluster, "name"), ("clusters", index)
        if name not in used:
            yield Finding(place, "no target is in it, so that nothing there is scaled")
        reached = tuple(child(cluster, key) for key in ("kubeconfig", "context", "inCluster"))
        first = seen.setdefault(reached, name)
        if first != name:
            message = f"is the same cluster as `{first}`, and only `{first}` is served"
            yield Finding(place, message)


def _of_fallback(place: Location, target: object) -> Iterator[Finding]:
    replicas = _count(target, "fallback", "replicas")
    if replicas is None:
        return
    counted = (target, *(window for _, window in entries(target, "schedules")))
    most = max(_count(bounds, "maxReplicas") or 0 for bounds in counted)
    if child(target, "fallback", "behavior") == "currentReplicas":
        message = "has no effect with behavior currentReplicas"
        yield Finding((*place, "replicas"), message)
    elif replicas > most:
        message = f"is more than maxReplicas, which is {most}: a fallback stays within the bounds"
        yield Finding((*place, "replicas"), message)


def _count(value: object, *keys: str) -> int | None:
    count = child(value, *keys)
    return count if isinstance(count, int) else None


def _of_windows(place: Location, target: object) -> Iterator[Finding]:
    """Find minima above the maximum of a window that may be open with theirs (semantics 8.2)."""
    windows = list(islice(entries(target, "schedules"), _MOST_WINDOWS))
    for (index, permutation), (_, other) in permutations(windows, 2):
        low, high = _count(permutation, "minReplicas"), _count(other, "maxReplicas")
        # With its own maximum, its minimum is never above the larger of both.
        if (
            low is None
            or high is None
            or low <= high
            or _count(permutation, "maxReplicas") is not None
        ):
            continue
        if may_be_open_together(_times(permutation), _times(other)):
            message = f"is more than the maxReplicas of `{child(other, 'name')}`, which is {high}, "
            message += "and both windows can be open at once: the minimum then holds"
            yield Finding((*place, index, "minReplicas"), message)


def _of_times(place: Location, target: object, sync_period: float) -> Iterator[Finding]:
    """Find windows that never open, and those that may open and close between two syncs."""
    own = child(target, "syncPeriod")
    period = sync_period if own is None else durations.seconds_of(own)
    for index, window in islice(entries(target, "schedules"), _MOST_WINDOWS):
        seconds = seconds_open(*_times(window))
        if seconds is None or seconds >= period:
            continue
        message = "comes at the instant of every start, so that the window never opens"
        if seconds:
            message = f"comes {durations.format_seconds(seconds)} after a start, and the target is "
            message += f"synced every {durations.format_seconds(period)}: such a window may open "
            message += "and close without any effect"
        yield Finding((*place, index, "end"), message)


def _of_zeros(place: Location, target: object) -> Iterator[Finding]:
    """Find rules that set a target to zero, where its own minimum disables it (semantics 6.7)."""
    if _count(target, "minReplicas") == 0 or child(target, "idle") is not None:
        return
    zeros: list[Location] = [
        ("schedules", index, "minReplicas")
        for index, window in entries(target, "schedules")
        if _count(window, "minReplicas") == 0
    ]
    if _count(target, "paused", "replicas") == 0:
        zeros.append(("paused", "replicas"))
    for where in zeros:
        place_of_idle = "in its place" if where[0] == "schedules" else "next to it"
        yield Finding(
            (*place, *where),
            "is 0, and the target's own minReplicas is not: if the daemon loses its state, "
            "the target stays at 0 unless its object records that this autoscaler set it, "
            f"which a custom resource never does; with `idle` {place_of_idle}, 0 is a normal "
            "count, whoever set it",
        )


def _times(window: object) -> tuple[str, str, str]:
    start, end, zone = (child(window, key) for key in ("start", "end", "timezone"))
    return str(start), str(end), str(zone or "UTC")
