"""`autoscaler pause` and `autoscaler resume`: set and remove annotations of workloads."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from autoscaler import clock
from autoscaler.cli.output import CommandError
from autoscaler.cli.target_names import UnknownTargetError, chosen_targets
from autoscaler.config import KubernetesSettings, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.guards import PAUSED, PAUSED_REPLICAS, PAUSED_UNTIL
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import Target
from autoscaler.core.text import rfc3339
from autoscaler.daemon.connections import endpoint_of
from autoscaler.kubernetes import ConnectError, Scales
from autoscaler.kubernetes.failures import in_namespace
from autoscaler.rendering import wording
from autoscaler.transport.retries import FOR_A_COMMAND, FailureKind

_SECONDS = 30.0
"""The time limit for all workloads together, in seconds."""
_CORE_KINDS = frozenset({"ReplicationController"})

_WHAT = {
    "true": "paused, nothing is scaled",
    "scale-down": "nothing is scaled down",
    "scale-up": "nothing is scaled up",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A named workload, and its target in a configuration, if any."""

    key: str
    namespace: str
    ref: ScaleTargetRef
    target: Target | None = None

    @property
    def cluster(self) -> str:
        """Its cluster; empty without a configuration, or without `clusters`."""
        return "" if self.target is None else self.target.cluster


def pause(
    names: Sequence[str],
    config: Path | None = None,
    context: str | None = None,
    *,
    only: str | None = None,
    replicas: int | None = None,
    seconds: float | None = None,
) -> int:
    """Pause the named workloads, print the results, and return the exit code.

    They are targets of ``config``, or of the cluster itself. ``only`` is the direction, scale-down
    or scale-up; both if None.
    """
    until = None if seconds is None else rfc3339(clock.wall() + seconds)
    values = {
        PAUSED: only or "true",
        PAUSED_REPLICAS: None if replicas is None else str(replicas),
        PAUSED_UNTIL: until,
    }
    what = _WHAT[only or "true"]
    if replicas is not None:
        what = f"paused at {wording.counted(replicas, 'replica')}"
    end = "until resumed" if until is None else f"until {until}"

    def describe(workload: Workload) -> str:
        if workload.target is not None:
            return f"{what} {end}"
        return f"annotated: {what} {end}, if a daemon scales this workload"

    return _annotate("pause", names, config, context, values, describe)


def resume(
    names: Sequence[str],
    config: Path | None = None,
    context: str | None = None,
    *,
    force: bool = False,
) -> int:
    """End the pause of the named workloads, and return the exit code.

    ``force`` also ends a pause by the configuration. Without it such a pause stays: a failure.
    """
    values = {PAUSED: "false" if force else None, PAUSED_REPLICAS: None, PAUSED_UNTIL: None}
    still_paused: list[str] = []

    def describe(workload: Workload) -> str:
        if workload.target is None or workload.target.extensions.pause is None:
            return "resumed"
        if force:
            return f'resumed despite the configuration: {PAUSED} is "false"'
        still_paused.append(workload.key)
        return (
            "annotations removed, but the configuration pauses it; "
            "`autoscaler resume --force` resumes it anyway"
        )

    code = _annotate("resume", names, config, context, values, describe)
    return code or (1 if still_paused else 0)


def _annotate(
    command: str,
    names: Sequence[str],
    config: Path | None,
    context: str | None,
    values: Mapping[str, str | None],
    describe: Callable[[Workload], str],
) -> int:
    code = 0
    try:
        workloads, clusters = _find(names, config)
        named = {workload.cluster for workload in workloads}
        if context is not None and len(named) > 1:
            raise CommandError("--context names one cluster, but the targets are in several")
        for cluster in [name for name in clusters if name in named]:
            server = endpoint_of(clusters[cluster], context)
            with closing(server.connect(absent_seconds=FOR_A_COMMAND)) as api:
                scales = Scales(api)
                deadline = clock.monotonic() + _SECONDS
                for workload in (found for found in workloads if found.cluster == cluster):
                    refusal = _refusal(scales, workload, values, deadline)
                    if refusal:
                        code = 1
                        print(f"{workload.key}: {refusal}", file=sys.stderr, flush=True)
                    else:
                        print(f"{workload.key}: {describe(workload)}", flush=True)
    except ConnectError as error:
        raise CommandError(f"autoscaler cannot {command}: {error}") from None
    return code


def _refusal(
    scales: Scales, workload: Workload, values: Mapping[str, str | None], deadline: float
) -> str:
    """Return why a request was refused, or ""; raises ConnectError if all others would be too."""
    failure = scales.annotate(workload.namespace, workload.ref, values, deadline)
    if failure is None:
        return ""
    if not failure.status or failure.kind is FailureKind.REJECTED:
        raise ConnectError(failure.message)
    return in_namespace(failure, workload.namespace)


def _find(
    names: Sequence[str], file: Path | None
) -> tuple[list[Workload], Mapping[str, KubernetesSettings]]:
    """Return the named workloads, and the clusters. Raises ConfigError and UnknownTargetError."""
    if file is None:
        return [_named(name) for name in dict.fromkeys(names)], {"": KubernetesSettings()}
    config = load(file, namespace_or_anywhere)  # No Lease is needed.
    workloads = [
        Workload(wording.target_key(target), target.namespace, target.spec.scale_target_ref, target)
        for target in chosen_targets(config.targets, names)
    ]
    return workloads, config.connections


def _named(name: str) -> Workload:
    """Read NAMESPACE/NAME, of a Deployment, or NAMESPACE/KIND/NAME, KIND.GROUP if not of apps."""
    namespace, *kind, last = name.split("/") if name.count("/") in {1, 2} else ("", "")
    if not (namespace and last and all(kind)):
        raise UnknownTargetError(
            f"{name} names no workload: right is NAMESPACE/NAME for a Deployment, such as "
            "shop/order-worker, else NAMESPACE/KIND/NAME, such as shop/StatefulSet/db or "
            "shop/Rollout.argoproj.io/web"
        )
    short, _, group = "".join(kind or ("Deployment",)).partition(".")
    # Discovery finds the served version.
    group = group or ("" if short in _CORE_KINDS else "apps")
    ref = ScaleTargetRef(f"{group}/v1" if group else "v1", short, last)
    return Workload("/".join((namespace, *(kind or ("Deployment",)), last)), namespace, ref)
