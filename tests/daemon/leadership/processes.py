"""Writers as processes that tests stop, kill and follow."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from autoscaler.kubernetes.election import ElectionTimes
from autoscaler.kubernetes.leadership import Role
from tests.worlds.daemon import Line, LineProcess, spawned


class WriterProcess(LineProcess):
    """`tests.daemon.leadership.writer`, which waits ``pause`` seconds after each write."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        identity: str,
        deployments: Sequence[str],
        times: ElectionTimes,
        pause: float,
    ) -> None:
        self.identity = identity
        settings = {
            "kubeconfig": str(kubeconfig),
            "namespace": namespace,
            "identity": identity,
            "pause": pause,
            "deployments": list(deployments),
            "times": astuple(times),
        }
        program = [sys.executable, "-m", "tests.daemon.leadership.writer", json.dumps(settings)]
        super().__init__(*spawned(program, os.environ))

    def wait_role(self, role: Role, after: float = 0.0, seconds: float = 30.0) -> float:
        def is_role(line: Line) -> bool:
            return line.get("role") == role.value and line["at"] >= after

        at: float = self.wait_for(f"{self.identity} is {role}", is_role, seconds)["at"]
        return at
