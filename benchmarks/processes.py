"""What processes cost, from /proc."""

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the user and system time of each named process, to 10 ms, ended threads included."""
    return {name: _cpu(pid) for name, pid in pids.items()}


def resident_bytes(pids: Mapping[str, int]) -> dict[str, int]:
    """Return the resident memory (VmRSS) of each named process."""
    return {name: _resident(pid) for name, pid in pids.items()}


def _cpu(pid: int) -> float:
    # The name in parentheses may hold spaces; utime and stime are fields 14 and 15 of proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
