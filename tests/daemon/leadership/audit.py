"""The API server's own account of who wrote what, in the order in which it took effect.

A resourceVersion is a revision of the whole of etcd: the versions of a Lease and of Deployments
are in one order, whoever's clock says what.
"""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
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
    at: float
    """When the server had carried it out, Unix seconds."""
    user: str
    name: str
    """That of the Lease, or of what was scaled."""
    holder: str | None
    """Whom a Lease names from then on; None for the write of a scale."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the API server has written down so far of a namespace."""

    log: Path
    namespace: str

    def scales(self) -> Counter[str]:
        """Count the scales that each user wrote.

        While somebody writes, the log may lack an event that is older than its last one.
        """
        return Counter(write.user for write in self.writes() if write.holder is None)

    def scales_by_holders(self) -> Counter[str]:
        """Count the scales that each user wrote, all of which it wrote while holding the Lease.

        An identity is the user's name, with or without a random part after it.
        """
        holder = ""
        counts: Counter[str] = Counter()
        terms = 0
        for write in self.writes():
            if write.holder is not None:
                terms += write.holder not in {"", holder}
                holder = write.holder
                continue
            assert write.user == holder.partition("_")[0], (
                f"{write.user} wrote a scale at version {write.version} while "
                f"{holder or 'nobody'} held the Lease, in term {terms}, after {counts}"
            )
            counts[write.user] += 1
        return counts

    def writes(self) -> list[Write]:
        """Return the writes in their order; the line that the server is at is not one yet."""
        found = []
        *lines, _begun = self.log.read_text().split("\n")
        for line in lines:
            event = json.loads(line)
            if event["objectRef"].get("namespace") != self.namespace:
                continue
            if event["responseStatus"]["code"] not in {200, 201}:
                continue
            answer = event["responseObject"]
            of_lease = event["objectRef"]["resource"] == "leases"
            holder = answer["spec"].get("holderIdentity", "") if of_lease else None
            version = int(answer["metadata"]["resourceVersion"])
            at = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
            user, name = event["user"]["username"], answer["metadata"]["name"]
            found.append(Write(version, at, user, name, holder))
        return sorted(found, key=lambda write: write.version)
