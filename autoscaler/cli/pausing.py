"""`autoscaler pause` and `autoscaler resume`: annotations of workloads, set and removed."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError, find_api_server
from autoscaler.adapters.cluster.annotations import Annotations
from autoscaler.adapters.cluster.discovery import ScalableKinds
from autoscaler.adapters.cluster.failures import in_namespace
from autoscaler.cli.target_names import UnknownTargetError, chosen
from autoscaler.config import ConfigError, KubernetesSettings, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.pauses import PAUSED, PAUSED_REPLICAS, PAUSED_UNTIL
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import Target
from autoscaler.core.text import rfc3339
from autoscaler.rendering import wording

_SECONDS = 30.0
"""For all workloads together."""
_CORE_KINDS = frozenset({"ReplicationController"})

_WHAT = {
    "true": "paused, nothing is scaled",
    "scale-down": "nothing is scaled down",
    "scale-up": "nothing is scaled up",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload on the command line; ``paused`` is whether the configuration pauses it.

    ``known`` is whether it is a target of a configuration.
    """

    key: str
    namespace: str
    ref: ScaleTargetRef
    paused: bool = False
    known: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where workloads are looked up: in the targets of ``config``, else in the cluster itself."""

    config: Path | None = None
    context: str | None = None


def pause(
    names: Sequence[str],
    place: Place,
    *,
    only: str | None = None,
    replicas: int | None = None,
    seconds: float | None = None,
) -> int:
    """Pause the workloads that are named, print what was done, and return the exit code.

    ``only`` is the direction, scale-down or scale-up; both if None.
    """
    until = None if seconds is None else rfc3339(clock.wall() + seconds)
    values = {
        PAUSED: only or "true",
        PAUSED_REPLICAS: None if replicas is None else str(replicas),
        PAUSED_UNTIL: until,
    }
    what = _WHAT[only or "true"]
    if replicas is not None:
        what = f"paused, it goes to {wording.counted(replicas, 'replica')} and stays there"
    end = "until it is resumed" if until is None else f"until {until}"

    def told(workload: Workload) -> str:
        if workload.known:
            return f"{what} {end}"
        return f"annotated: {what} {end}, if a daemon scales it"

    return _annotate("pause", names, place, values, told)


def resume(names: Sequence[str], place: Place, *, override: bool = False) -> int:
    """End the pause of the workloads that are named, and return the exit code.

    ``override`` ends one of the configuration too.  Without it that one stays, which is a failure.
    """
    values = {PAUSED: "false" if override else None, PAUSED_REPLICAS: None, PAUSED_UNTIL: None}
    still_paused: list[str] = []

    def told(workload: Workload) -> str:
        if not workload.paused:
            return "resumed"
        if override:
            return f'resumed, though the configuration pauses it: {PAUSED} is "false"'
        still_paused.append(workload.key)
        return (
            "no annotation pauses it any more, but the configuration does; "
            "`autoscaler resume --override` resumes it all the same"
        )

    code = _annotate("resume", names, place, values, told)
    return code or (1 if still_paused else 0)


def _annotate(
    command: str,
    names: Sequence[str],
    place: Place,
    values: Mapping[str, str | None],
    told: Callable[[Workload], str],
) -> int:
    """Annotate each workload and print a line; return the exit code."""
    refused = 0
    try:
        workloads, settings = _find(names, place)
        context = place.context or settings.context
        with closing(find_api_server(settings.kubeconfig, context).connect()) as api:
            annotations = Annotations(api, ScalableKinds(api))
            deadline = clock.monotonic() + _SECONDS
            for one in workloads:
                refusal = _refusal(annotations, one, values, deadline)
                if refusal:
                    refused += 1
                    print(f"{one.key}: {refusal}", file=sys.stderr, flush=True)
                else:
                    print(f"{one.key}: {told(one)}", flush=True)
    except (ConfigError, UnknownTargetError) as error:
        print(error, file=sys.stderr)
        return 2
    except ConnectError as error:
        print(f"autoscaler cannot {command}: {error}", file=sys.stderr)
        return 1
    return 1 if refused else 0


def _refusal(
    annotations: Annotations, one: Workload, values: Mapping[str, str | None], deadline: float
) -> str:
    """Annotate one workload; return why that was refused, or "".

    Raises ConnectError if it would be the same for any other.
    """
    failure = annotations.write(one.namespace, one.ref, values, deadline)
    if failure is None:
        return ""
    if not failure.status or failure.rejected:
        raise ConnectError(failure.message)
    return in_namespace(failure, one.namespace)


def _find(names: Sequence[str], place: Place) -> tuple[list[Workload], KubernetesSettings]:
    """Return the workloads that are named.  Raises ConfigError and UnknownTargetError."""
    if place.config is None:
        return [_named(name) for name in dict.fromkeys(names)], KubernetesSettings()
    config = load(place.config, namespace_or_anywhere)  # no Lease is needed
    keys = chosen(names, [target.key for target in config.targets])
    return [_of(target) for target in config.targets if target.key in keys], config.kubernetes


def _of(target: Target) -> Workload:
    paused = target.extensions.pause is not None
    ref = target.spec.scale_target_ref
    return Workload(wording.target_key(target), target.namespace, ref, paused, known=True)


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
    # Discovery finds the version that is served.
    group = group or ("" if short in _CORE_KINDS else "apps")
    ref = ScaleTargetRef(f"{group}/v1" if group else "v1", short, last)
    return Workload("/".join((namespace, *(kind or ("Deployment",)), last)), namespace, ref)
