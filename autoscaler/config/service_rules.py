"""The rules of how the daemon lives beside others: the Lease's times and place, its folder."""

import stat
from collections.abc import Iterator
from pathlib import Path

from autoscaler.config import durations
from autoscaler.config.document import child
from autoscaler.config.document_rules import absolute
from autoscaler.config.problems import Finding
from autoscaler.config.settings import LeaderElection

JITTER = 1.2
"""By so much a try to renew may come later than `retryPeriod` (client-go's JitterFactor)."""


def service_findings(
    document: object, folder: Path, pod_namespace: str | None
) -> Iterator[Finding]:
    """Check the document's `leaderElection` and `stateDirectory`.

    ``pod_namespace`` is that of the pod that we run in; None outside a pod.
    """
    yield from _state_directory(child(document, "stateDirectory"), folder)
    election = child(document, "leaderElection")
    yield from _times(election)
    if child(election, "enabled") is True and not (child(election, "namespace") or pod_namespace):
        yield Finding(
            ("leaderElection", "namespace"),
            "is missing: the namespace of the Lease, which is known by itself only in a pod",
            show_value=False,
        )


def _state_directory(name: object, folder: Path) -> Iterator[Finding]:
    if not isinstance(name, str) or not name.strip():
        return
    path = absolute(name, folder)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            yield Finding(("stateDirectory",), f"must name a folder, and {path} is a file")
    except (FileNotFoundError, PermissionError):
        return  # whoever starts the daemon may still make it
    except (OSError, ValueError):
        yield Finding(("stateDirectory",), "must be the name of a folder")


def _times(election: object) -> Iterator[Finding]:
    usual = LeaderElection()
    lease = _seconds(election, "leaseDuration", usual.lease_duration)
    renew = _seconds(election, "renewDeadline", usual.renew_deadline)
    retry = _seconds(election, "retryPeriod", usual.retry_period)
    if lease is not None and renew is not None and lease <= renew:
        key = "leaseDuration" if child(election, "leaseDuration") is not None else "renewDeadline"
        says = (
            f"must be longer than renewDeadline, which is {durations.format_seconds(renew)}"
            if key == "leaseDuration"
            else f"must be shorter than leaseDuration, which is {durations.format_seconds(lease)}"
        )
        yield Finding(("leaderElection", key), f"{says}: a leader stops before another may start")
    if renew is not None and retry is not None and renew <= JITTER * retry:
        given = child(election, "retryPeriod") is not None
        key = "retryPeriod" if given else "renewDeadline"
        says = (
            f"{JITTER:g} times this must be shorter than renewDeadline, which is "
            f"{durations.format_seconds(renew)}"
            if given
            else f"must be longer than {JITTER:g} times retryPeriod, which is "
            f"{durations.format_seconds(retry)}"
        )
        yield Finding(("leaderElection", key), f"{says}: else one late try ends the leadership")


def _seconds(election: object, key: str, default: float) -> float | None:
    """Return a duration in seconds; None where it has the wrong form, which is said elsewhere."""
    value = child(election, key)
    if value is None:
        return default
    try:
        return durations.of(value)
    except ValueError:
        return None
