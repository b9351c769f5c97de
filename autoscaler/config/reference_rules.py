"""The rules of `scaleTargetRef`: which kind of which group is scaled."""

from collections.abc import Iterator

from autoscaler.config.document import child
from autoscaler.config.problems import Finding, Location

_APPS = {"Deployment": "deploy", "StatefulSet": "sts", "ReplicaSet": "rs"}
"""The kinds of the group apps that have a scale subresource, with kubectl's short names."""

_KINDS = {
    name: kind
    for kind, short in {**_APPS, "ReplicationController": "rc"}.items()
    for name in (kind.lower(), f"{kind.lower()}s", short)
}
_WITHOUT_SCALE = {"DaemonSet": "apps", "Job": "batch", "CronJob": "batch", "Pod": ""}
_SLIPS = {"", "app", "extensions"}
"""Groups that people write who mean apps, the Deployments' since Kubernetes 1.16."""


def reference_findings(ref: object, location: Location) -> Iterator[Finding]:
    """Check the kind and the group of what is to be scaled.

    As for the HPA only the group counts of `apiVersion`, so that a version is free.
    """
    version, kind = child(ref, "apiVersion"), child(ref, "kind")
    if not isinstance(kind, str):
        return
    group = _group(version)
    usual = _KINDS.get(kind.lower(), kind)
    if usual != kind and group in {*_SLIPS, "apps", None}:
        yield Finding((*location, "kind"), f"must be {usual}, as in `kind` of its manifest")
        kind = usual
    if _WITHOUT_SCALE.get(kind, "none") == group:
        yield Finding(
            (*location, "kind"),
            "has no scale subresource, so that nothing can set its replicas; right is a "
            "Deployment, a StatefulSet or another kind that has one",
        )
    else:
        yield from _group_findings(version, group, kind, location)


def _group(version: object) -> str | None:
    """Return the group of an `apiVersion`; None where it has none that could be one."""
    return version.rpartition("/")[0] if isinstance(version, str) else None


def _group_findings(
    version: object, group: str | None, kind: str, location: Location
) -> Iterator[Finding]:
    if kind == "ReplicationController":
        return
    such = f"must name the group of {kind}, such as apps/v1"
    right = "must be apps/v1" if kind in _APPS else such
    place = (*location, "apiVersion")
    if version is None:
        advice = (
            f"apps/v1 for a {kind}"
            if kind in _APPS
            else f"the group and version of {kind}, such as apps/v1"
        )
        yield Finding(
            location, f"apiVersion is missing: {advice}", show_value=False, missing=(place,)
        )
    elif isinstance(version, str) and version.startswith("/"):
        yield Finding(place, "must name a group before the /, such as apps/v1")
    elif group == "":
        yield Finding(place, f"{right}; only a ReplicationController is in the core group")
    elif kind in _APPS and group in _SLIPS:
        yield Finding(place, f"{right} for a {kind}")
