"""Shards: daemons with one configuration; each serves some clusters or namespaces.

A place is the cluster of a target if the configuration has `clusters`, else its namespace; it is
the first part of the target's name.
"""

import hashlib
import os
import re
import socket
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from autoscaler.config.fields import HOSTNAME

_OF_LEASE = re.compile(r"([0-9]{1,4})-of-([1-9][0-9]{0,3})")


class Shard(NamedTuple):
    """One shard, and the number of shards; numbers begin at 0."""

    number: int = 0
    shards: int = 1
    urls: tuple[str | None, ...] = ()
    """The URL of each shard's pages, if known."""

    def owns(self, name: str) -> bool:
        """Return whether it serves a place, or a target with this name."""
        return owner(name.partition("/")[0], self.shards) == self.number

    def other(self, name: str) -> tuple[int, str | None] | None:
        """Return the other shard that serves it, and its pages' URL; None if this one does."""
        number = owner(name.partition("/")[0], self.shards)
        return None if number == self.number else (number, self.urls[number])

    def lease(self, name: str) -> str:
        """Return the name of its Lease; ``name`` is the name of a Lease without shards."""
        return name if self.shards == 1 else f"{name}-{self.number}-of-{self.shards}"

    @classmethod
    def of_lease(cls, lease: str, name: str) -> "Shard | None":
        """Return the shard of a Lease; None for others."""
        if lease == name:
            return cls()
        rest = lease.removeprefix(f"{name}-")
        found = _OF_LEASE.fullmatch(rest) if rest != lease else None
        return found and cls(int(found[1]), int(found[2]))


@lru_cache(16_384)
def owner(place: str, shards: int) -> int:
    """Return which of the ``shards`` serves a place, by rendezvous hashing.

    All processes agree, and another number of shards moves as few places as possible.
    """
    weights = (hashlib.sha256(f"{shard}/{place}".encode()).digest() for shard in range(shards))
    return max(enumerate(weights), key=lambda weighed: weighed[1])[0]


def ordinal(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the ordinal of our pod in its StatefulSet, or of our host; None without one."""
    found = re.search(r"-([0-9]+)$", environment.get("POD_NAME") or socket.gethostname())
    return found and int(found[1])


def url_of(shard: int, template: str | None) -> str | None:
    """Return the URL of a shard's pages; None if the host's name has no number."""
    host, numbers = re.subn("(?<=-)[0-9]+$", str(shard), socket.gethostname())
    return template.replace(HOSTNAME, host) if template and numbers else None
