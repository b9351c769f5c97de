"""The HPA controller beside a control plane that runs without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane import binaries, flags
from tests.controlplane.api import Api
from tests.controlplane.process import ServerProcess
from tests.controlplane.server import ControlPlane


@contextmanager
def hpa_controller(plane: ControlPlane, folder: Path, period: str) -> Iterator[ServerProcess]:
    """Run kube-controller-manager with this controller alone; pods count from their start on."""
    program = binaries.locate([binaries.CONTROLLER_MANAGER])[binaries.CONTROLLER_MANAGER]
    ports = flags.Ports()
    command = flags.controller_manager(
        program,
        ports,
        flags.Files(plane.data_dir),
        ["horizontal-pod-autoscaler-controller"],
        [
            f"--horizontal-pod-autoscaler-sync-period={period}",
            "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
            "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
            "--concurrent-horizontal-pod-autoscaler-syncs=20",
        ],
    )
    process = ServerProcess(command, folder / "hpa-controller.log")
    process.start()
    try:
        address = f"https://127.0.0.1:{ports.controller_manager}"
        with Api(address, plane.admin_token, plane.ca_file) as probe:
            process.wait_ready(lambda: probe.healthy("/healthz"))
        yield process
    finally:
        process.stop()
