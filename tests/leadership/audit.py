"""The API server's own account of who wrote what, in the order in which it took effect.

A resourceVersion is a revision of the whole of etcd: the versions of a Lease and of Deployments
are in one order, whoever's clock says what.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch]
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: apps, resources: [deployments/scale]}
- level: None
"""


@dataclass(frozen=True, slots=True)
class Write:
    """A write that took effect."""

    version: int
    user: str
    holder: str | None
    """Whom a Lease names from then on; None for the write of a scale."""


def writes(log: Path, namespace: str) -> list[Write]:
    """Return the writes in a namespace, in order."""
    found = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["objectRef"].get("namespace") != namespace:
            continue
        if event["responseStatus"]["code"] not in {200, 201}:
            continue
        answer = event["responseObject"]
        of_lease = event["objectRef"]["resource"] == "leases"
        holder = answer["spec"].get("holderIdentity", "") if of_lease else None
        version = int(answer["metadata"]["resourceVersion"])
        found.append(Write(version, event["user"]["username"], holder))
    return sorted(found, key=lambda write: write.version)


def scales_by_holders(log: Path, namespace: str) -> Counter[str]:
    """Count the scales that each user wrote, all of which it wrote while holding the Lease.

    An identity is the user's name, with or without a random part after it.
    """
    holder = ""
    counts: Counter[str] = Counter()
    terms = 0
    for write in writes(log, namespace):
        if write.holder is not None:
            terms += write.holder not in {"", holder}
            holder = write.holder
            continue
        assert write.user == holder.partition("_")[0], (
            f"{write.user} wrote a scale at version {write.version} while {holder or 'nobody'} "
            f"held the Lease, in term {terms}, after {counts}"
        )
        counts[write.user] += 1
    return counts
