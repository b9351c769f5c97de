"""What is valid, and probably not what was meant: warnings of `validate`."""

from collections.abc import Iterator, Mapping
from itertools import islice, permutations

from autoscaler.config.document import Location, child, entries
from autoscaler.config.fields import listen_address
from autoscaler.config.problems import MOST_PROBLEMS, Finding, Problem, located
from autoscaler.config.settings import Config
from autoscaler.config.sources import sources_of
from autoscaler.schedules import may_be_open_together

_MOST_WINDOWS = 30
"""Of a target; of more the pairs would take long to compare."""


def cautions_on(config: Config, content: bytes | None = None) -> list[Problem]:
    """Return what is doubtful in a valid configuration, `MOST_PROBLEMS` at most.

    Its files are read again for their lines; ``content`` as for `load`.
    """
    found: list[Problem] = []
    for source in sources_of(config, content):
        findings = list(islice(_cautions(source.value), MOST_PROBLEMS - len(found)))
        if findings:
            found += located(findings, source.value, str(source.path), source.places)
    return found


def _cautions(document: object) -> Iterator[Finding]:
    yield from _empty((), document, "scaleDownBreaker")
    yield from _of_web(document)
    for index, target in entries(document, "targets"):
        place: Location = ("targets", index)
        yield from _empty(place, target, "idle")
        yield from _of_fallback((*place, "fallback"), target)
        yield from _of_windows((*place, "schedules"), target)


def _empty(place: Location, around: object, key: str) -> Iterator[Finding]:
    """Find a key without a value that is off, while one with nothing in it would be on."""
    if isinstance(around, Mapping) and key in around and around[key] is None:
        message = f"has no value, so that it is off; `{key}: {{}}` takes the defaults"
        yield Finding((*place, key), message, show_value=False)


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


def _of_fallback(place: Location, target: object) -> Iterator[Finding]:
    replicas, most = _count(target, "fallback", "replicas"), _most(target)
    if replicas is None:
        return
    if child(target, "fallback", "behavior") == "currentReplicas":
        message = "has no use beside behavior currentReplicas, which proposes the current count"
        yield Finding((*place, "replicas"), message)
    elif replicas > most:
        message = f"is more than maxReplicas, which is {most}: a fallback stays within the bounds"
        yield Finding((*place, "replicas"), message)


def _count(value: object, *keys: str) -> int | None:
    found = child(value, *keys)
    return found if isinstance(found, int) else None


def _most(target: object) -> int:
    """Return the largest maximum that a target has, be it by a window."""
    windows = (window for _, window in entries(target, "schedules"))
    return max(_count(one, "maxReplicas") or 0 for one in (target, *windows))


def _of_windows(place: Location, target: object) -> Iterator[Finding]:
    """Find minima above the maximum of a window that may be open with theirs (semantics 8.2)."""
    windows = list(islice(entries(target, "schedules"), _MOST_WINDOWS))
    for (index, one), (_, other) in permutations(windows, 2):
        low, high = _count(one, "minReplicas"), _count(other, "maxReplicas")
        # With a maximum of its own its minimum is never above the larger of both.
        if low is None or high is None or low <= high or _count(one, "maxReplicas") is not None:
            continue
        if may_be_open_together(_times(one), _times(other)):
            yield Finding(
                (*place, index, "minReplicas"),
                f"is more than the maxReplicas of `{child(other, 'name')}`, which is {high}, and "
                "both windows can be open at once: the minimum then holds",
            )


def _times(window: object) -> tuple[str, str, str]:
    start, end, zone = (child(window, key) for key in ("start", "end", "timezone"))
    return str(start), str(end), str(zone or "UTC")
