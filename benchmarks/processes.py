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
    return {name: status(pid).get("VmRSS", 0) * 1024 for name, pid in pids.items()}


def status(pid: int) -> dict[str, int]:
    """Return the numbers in proc_pid_status(5) of a process: `Threads`, and `VmRSS` in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    parts = [line.split() for line in lines]
    return {line[0].rstrip(":"): int(line[1]) for line in parts if line[1:] and line[1].isdigit()}


def _cpu(pid: int) -> float:
    # The name in parentheses may hold spaces; utime and stime are fields 14 and 15 of proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
