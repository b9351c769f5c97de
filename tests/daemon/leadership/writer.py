"""A process that writes scales as fast as it can, whenever it leads.

`python -m tests.daemon.leadership.writer SETTINGS`, a JSON object.  Each process writes
Deployments of its own, so that no resourceVersion keeps it from anything.  Lines of JSON say where
it stands.
"""

import json
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import AcceptedWrite, SkippedWrite, WriteConflict
from autoscaler.kubernetes import Leases, Scales
from autoscaler.kubernetes.election import ElectionTimes
from autoscaler.kubernetes.leadership import ElectionObserver, Leadership, Role
from tests.worlds.cluster.connecting import connect

_WRITE_SECONDS = 5.0
_IDLE_SECONDS = 0.002


def say(**fields: object) -> None:
    print(json.dumps({"at": clock.monotonic(), **fields}), flush=True)


def keep_writing(
    scales: Scales,
    namespace: str,
    pause: float,
    leadership: Leadership,
    stop: threading.Event,
    name: str,
) -> None:
    """Change the count of one Deployment, again and again."""
    ref = ScaleTargetRef("apps/v1", "Deployment", name)
    known: Scale | None = None
    while not stop.is_set():
        deadline = clock.monotonic() + _WRITE_SECONDS
        if known is None:
            seen = scales.read(namespace, ref, deadline)
            known = seen if isinstance(seen, Scale) else None
        if known is None or not leadership.leading():
            stop.wait(_IDLE_SECONDS)
            continue
        replicas = known.spec_replicas % 1000 + 1
        outcome = scales.write(namespace, ref, known, replicas, deadline)
        stop.wait(pause)
        if isinstance(outcome, AcceptedWrite | WriteConflict):
            known = outcome.scale
        elif not isinstance(outcome, SkippedWrite):
            known = None


class Saying(ElectionObserver):
    """Prints what happens."""

    def role_changed(self, role: Role, sentence: str) -> None:
        say(role=role.value, sentence=sentence)

    def fault(self, error: BaseException) -> None:
        say(fault=repr(error))


def main(
    kubeconfig: str,
    namespace: str,
    identity: str,
    pause: float,
    deployments: Sequence[str],
    times: Sequence[float],
) -> None:
    """Stand for election, and write, until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    file = Path(kubeconfig)
    with connect(file, stop=stop) as api, connect(file) as own:
        leases = Leases(own, namespace, "autoscaler")
        leadership = Leadership(leases, identity, ElectionTimes(*times), observer=Saying())
        leadership.start()
        with ThreadPoolExecutor(len(deployments)) as pool:
            write = partial(
                keep_writing, Scales(api, leadership), namespace, pause, leadership, stop
            )
            for name in deployments:
                pool.submit(write, name)
            while not stop.wait(0.1):
                """A signal is handled between two calls."""
        leadership.close()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
