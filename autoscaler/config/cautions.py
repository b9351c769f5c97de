"""What is valid, and probably not meant or open to others: `validate` and the daemon warn of it."""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, permutations
from pathlib import Path
from urllib.parse import urlsplit

from autoscaler.config import durations
from autoscaler.config.documents import Location, child, entries, path_of
from autoscaler.config.fields import is_loopback, listen_address
from autoscaler.config.problems import MOST_PROBLEMS, Finding, Problem, located
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.config.promql import selectors_of
from autoscaler.config.queries import AskedQuery, BoundUse, HoldUse, MetricUse, queries_of
from autoscaler.config.reading import sources_of
from autoscaler.config.rules import SIGN_IN
from autoscaler.config.settings import Config, Sources
from autoscaler.config.sources import folder_of, named_files
from autoscaler.core.breaker import Breaker
from autoscaler.core.target import Query
from autoscaler.schedules import may_be_open_together, seconds_open

_MOST_WINDOWS = 30
"""Of a target; of more the pairs would take long to compare."""

_PUBLIC = {"caFile", "certFile", "clientCAFile"}
"""The keys of files that hold no secret."""

_MOST_CHANGEABLE = 10
"""Files and folders that are named one by one."""


def cautions_on(config: Config, content: bytes | None = None) -> list[Problem]:
    """Return at most `MOST_PROBLEMS` doubts of a valid configuration; ``content`` as for `load`."""
    problems: list[Problem] = []
    for source in sources_of(config, content):
        doubts = _cautions(source.value, config)
        findings = list(islice(doubts, MOST_PROBLEMS - len(problems)))
        if findings:
            problems += located(findings, source.value, str(source.path), source.places)
    asked = queries_of(config, content)
    found = dict.fromkeys(chain(_of_ranges(asked), _of_shared_servers(asked, config)))
    return [*problems, *islice(found, MOST_PROBLEMS - len(problems))]


def _of_ranges(asked: Iterable[AskedQuery]) -> Iterator[Problem]:
    """Find queries of metrics whose range is neither understood nor given by `window`."""
    for place, use in ((one.place, use) for one in asked for use in one.uses):
        if not use.query.assumes_range:
            continue
        until = f"until then it counts as {durations.format_seconds(use.query.range_seconds)}"
        message = "how far this PromQL looks back is not understood: write its longest range as "
        yield Problem(*place, None, f"{message}`window` beside `query`; {until}")


def _of_shared_servers(asked: Iterable[AskedQuery], config: Config) -> Iterator[Problem]:
    """Find what reads the series of several clusters beside one Prometheus as if of one."""
    labels = {cluster.name: cluster.series_labels.items() for cluster in config.clusters or ()}
    names = {name for own in labels.values() for name, _ in own}
    asking: dict[str, set[str]] = defaultdict(set)
    for target in config.targets:
        for query in target.all_queries:
            asking[query.server].add(target.cluster)
    for one in asked:
        uses: list[tuple[MetricUse | BoundUse | HoldUse, Query, object]] = [
            *((use, use.query, getattr(use.metric, "metric", None)) for use in one.uses),
            *((use, use.query, None) for use in one.bounds),
            *((use, use.hold.query, use.hold) for use in one.holds),
        ]
        matched = [{each.label for each in part.matchers} for part in selectors_of(one.key.promql)]
        for use, query, chosen in uses:
            own, cluster = {*query.series_labels}, use.target.cluster
            others = asking[query.server] - {cluster}
            mixed = [other for other in others if own <= labels[other]]
            selector = getattr(chosen, "selector", None)
            keys = () if selector is None else selector.keys
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
    """Find a key without a value that is off, while one with nothing in it would be on."""
    if isinstance(around, Mapping) and key in around and around[key] is None:
        message = f"has no value, so that it is off; `{key}: {{}}` takes the defaults"
        yield Finding((*place, key), message, show_value=False)


def _of_breaker(document: object, breaker: Breaker | None) -> Iterator[Finding]:
    """Find a share of the fewest targets that is none: whatever goes down would trip it."""
    if breaker is None or child(document, "scaleDownBreaker") is None:
        return
    least = -(-100 // breaker.share)
    if breaker.min_targets < least:
        message = f"{breaker.share}% of minTargets, which is {breaker.min_targets}, is less than "
        message += f"one target: of fewer than {least} targets of one server none could ever go "
        message += f"down, since one trips it; set minTargets to {least} or more"
        yield Finding(("scaleDownBreaker",), message, show_value=False)


def _of_web(document: object) -> Iterator[Finding]:
    """Find an address for others at which others are answered nothing."""
    listen = child(document, "web", "listen")
    asked = child(document, "web", "tls", "clientAuthType") not in {None, "NoClientCert"}
    if listen is None or asked or child(document, "web", "auth") is not None:
        return
    if not listen_address(listen).is_loopback:
        message = "others reach it, and only clients on this machine are answered: set web.auth "
        message += "with web.tls, or web.tls.clientAuthType, or listen on a loopback address"
        yield Finding(("web", "listen"), message)


def _of_clusters(document: object, config: Config) -> Iterator[Finding]:
    """Find clusters that no target is in, and entries that name the same one."""
    used = {target.cluster for target in config.targets}
    seen: dict[tuple[object, ...], object] = {}
    for index, cluster in entries(document, "clusters"):
        name, place = child(cluster, "name"), ("clusters", index)
        if name not in used:
            yield Finding(place, "no target is in it, so that nothing there is scaled")
        reached = tuple(child(cluster, key) for key in ("kubeconfig", "context", "inCluster"))
        first = seen.setdefault(reached, name)
        if first != name:
            message = f"is the cluster that `{first}` is, and only that is served"
            yield Finding(place, message)


def _of_fallback(place: Location, target: object) -> Iterator[Finding]:
    replicas = _count(target, "fallback", "replicas")
    if replicas is None:
        return
    counted = (target, *(window for _, window in entries(target, "schedules")))
    most = max(_count(bounds, "maxReplicas") or 0 for bounds in counted)
    if child(target, "fallback", "behavior") == "currentReplicas":
        message = "has no use beside behavior currentReplicas, which proposes the current count"
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
    for (index, one), (_, other) in permutations(windows, 2):
        low, high = _count(one, "minReplicas"), _count(other, "maxReplicas")
        # With a maximum of its own its minimum is never above the larger of both.
        if low is None or high is None or low <= high or _count(one, "maxReplicas") is not None:
            continue
        if may_be_open_together(_times(one), _times(other)):
            message = f"is more than the maxReplicas of `{child(other, 'name')}`, which is {high}, "
            message += "and both windows can be open at once: the minimum then holds"
            yield Finding((*place, index, "minReplicas"), message)


def _of_times(place: Location, target: object, sync_period: float) -> Iterator[Finding]:
    """Find windows that never open, and those that may open and close between two syncs."""
    own = child(target, "syncPeriod")
    period = sync_period if own is None else durations.of(own)
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
    """Find what sets a target to zero that is off there by its own minimum (semantics 6.7)."""
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
        place_of_idle = "in its place" if where[0] == "schedules" else "beside it"
        yield Finding(
            (*place, *where),
            "is 0, and the target's own minReplicas is not: once the state is lost it stays at "
            "0 unless its object says that this autoscaler set it, which a custom resource never "
            f"does; `idle` {place_of_idle} makes 0 a normal count, whoever set it",
        )


def _times(window: object) -> tuple[str, str, str]:
    start, end, zone = (child(window, key) for key in ("start", "end", "timezone"))
    return str(start), str(end), str(zone or "UTC")


def warnings_of(config: Config) -> list[str]:
    """Return a sentence for each secret or file that is open to others, and each check left out."""
    settings = config.model_dump(by_alias=True, include={"prometheus", "web"})
    secrets = (
        (path_of(place), Path(path))
        for place, path in named_files(settings, Config)
        if place[-1] not in _PUBLIC
    )
    warnings = [*_open_ones(secrets), *_changeable(config.sources)]
    for name, server in config.servers.items():
        path = f"prometheus.servers.{name}" if name else "prometheus"
        warnings += _warnings_of_server(path, server)
    return warnings


def _warnings_of_server(path: str, server: PrometheusSettings) -> Iterator[str]:
    if server.tls.insecure_skip_verify:
        yield (
            f"{path}.tls.insecureSkipVerify: any certificate is trusted, so that anyone on the "
            "way to Prometheus can read the credentials and invent the metrics; name the "
            "authority in caFile instead"
        )
    if _in_the_clear(server.url):
        given = server.model_dump(by_alias=True, exclude_none=True)
        ways = [key for key in SIGN_IN if key in given]
        for key in [*ways, "headersFiles"] if server.headers_files else ways:
            yield (
                f"{path}.url: {key} is sent to {server.url} without encryption, so that "
                "anyone on the way to Prometheus can read it; use https://"
            )
    if server.oauth2 is not None and _in_the_clear(server.oauth2.token_url):
        yield (
            f"{path}.oauth2.tokenUrl: the client's secret is sent to {server.oauth2.token_url} "
            "without encryption, so that anyone on the way can read it; use https://"
        )


def warnings_of_access(
    origin: str, secrets: Iterable[tuple[str, Path]], *, url: str, verified: bool
) -> list[str]:
    """Return the same of the way to the API server at ``url``, which ``origin`` names.

    ``secrets`` are files that hold credentials, each with its name; ``verified`` is whether a
    server that is reached by TLS has to prove who it is.
    """
    warnings = _open_ones(secrets)
    if _in_the_clear(url):
        parts = urlsplit(url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        warnings.append(
            f"{origin}: the server is {shown}, so that anyone on the way to it can read the "
            "credentials and answer in its place; use https://"
        )
    elif not verified:
        warnings.append(
            f"{origin}: insecure-skip-tls-verify is set, so that anyone on the way to the API "
            "server can read the credentials and answer in its place; name the authority in "
            "certificate-authority instead"
        )
    return warnings


def _in_the_clear(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname
    return parts.scheme == "http" and host is not None and not is_loopback(host)


def _open_ones(secrets: Iterable[tuple[str, Path]]) -> list[str]:
    return [f"{name}: {fault}" for name, path in secrets if (fault := _fault_of(path)) is not None]


def _fault_of(path: Path) -> str | None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if _mounted(path):
            return None
    except OSError:
        return None  # reading it fails with a message
    others = []
    if mode & stat.S_IROTH:
        others.append("read by every user of this machine")
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        others.append("written by others than its owner")
    if not others:
        return None
    return f"{path} can be {' and '.join(others)} (its mode is {mode:04o}); chmod 600 ends that"


def _changeable(sources: Sources) -> list[str]:
    files = list(sources.digests)
    patterns = {folder for pattern in sources.include if (folder := folder_of(pattern)) is not None}
    # A link may be replaced in its folder, and what it leads to in another one.
    parents = (folder for file in files for folder in (file.parent, file.resolve().parent))
    holding = dict.fromkeys([*parents, *sorted(patterns)])
    # Who may write in a folder above can put another in its place, but for a volume of the
    # kubelet in its pod: a mount cannot be replaced.
    above = (folder for one in holding if not _is_volume(one) for folder in one.parents)
    folders = dict.fromkeys([*holding, *above])
    # Where the sticky bit is set no user replaces a file of others, but a pattern matches new ones.
    sticky = dict.fromkeys(folders.keys() - patterns, stat.S_ISVTX)
    faults = [fault for one in [*files, *folders] if (fault := _writers(one, sticky.get(one, 0)))]
    left = len(faults) - _MOST_CHANGEABLE
    more = [f"the configuration: {left} more files and folders are as open to others"]
    named = [f"the configuration: {fault}" for fault in faults[:_MOST_CHANGEABLE]]
    return named + more if left > 0 else named


def _writers(path: Path, sticky: int) -> str | None:
    """Say who else may write a file, or a folder unless its mode has the bit ``sticky``."""
    try:
        status = path.stat()
        if _is_volume(path):
            return None
    except OSError:
        return None
    mode = stat.S_IMODE(status.st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & sticky:
        return (
            f"{path} can be written by others than its owner (its mode is {mode:04o}), who can "
            "change what is scaled and how; chmod go-w ends that"
        )
    if status.st_uid not in {0, os.geteuid()}:
        return (
            f"{path} belongs to user {status.st_uid}, who can change what is scaled and how; "
            "right is root, or the user that runs this"
        )
    return None


def _is_volume(path: Path) -> bool:
    """Return whether a file or folder is of a volume of the kubelet, or is one."""
    return _mounted(path) or (path / "..data").is_symlink()


def _mounted(path: Path) -> bool:
    """Return whether a file is of a volume of the kubelet (`..*`), which only its pod sees."""
    return any(part.startswith("..") for part in path.resolve().parts)
