"""What both sides did, as files that can be compared afterwards.

`hpa.jsonl` has a line for each event of a watch of the HPAs: `time` (Unix seconds when it came),
`type` and the whole `object`. `syncs.jsonl` has the daemon's line of each sync of a target.
`record.db` is its record, `autoscaler.yaml` its configuration, `autoscaler.log` all of its log.
`run.json` says when what counts began.
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import requests

from benchmarks import daemon, fleet
from benchmarks.bed import Bed
from tests.worlds.controlplane.api import Api, Json, Watch
from tests.worlds.process import ServerFailedError
from tests.worlds.waiting import Background

_WATCH_SECONDS = 60


class HpaLog(Background):
    """Writes each event of the namespace's HPAs to a file, from their state at its begin on."""

    def __init__(self, api: Api, file: Path) -> None:
        super().__init__()
        self._api = api
        self._file = file.open("w")
        listed = api.get(fleet.HPAS)
        for item in listed["items"]:
            self._write({"type": "ADDED", "object": item})
        self._watch = self._watched(listed["metadata"]["resourceVersion"])

    def __exit__(self, *_: object) -> None:
        watching = self._thread.is_alive()
        self._ended.set()
        self._watch.cancel()
        super().__exit__()
        self._file.close()
        if not watching:
            raise ServerFailedError("the watch of the HPAs ended: what came later is not recorded")

    def _run(self) -> None:
        while True:
            # The end of the block cuts it.
            with suppress(requests.RequestException):
                for event in self._watch:
                    self._write(event)
            if self._ended.is_set():
                return
            self._watch = self._watched(self._version)

    def _watched(self, version: str) -> Watch:
        self._version = version
        return self._api.watch(fleet.HPAS, resourceVersion=version, timeoutSeconds=_WATCH_SECONDS)

    def _write(self, event: Json) -> None:
        self._version = event["object"]["metadata"]["resourceVersion"]
        line = {"time": time.time(), "type": event["type"], "object": event["object"]}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def save(bed: Bed, folder: Path) -> None:
    """Copy what the daemon has left."""
    shutil.copy(daemon.log_file(bed), folder)
    shutil.copy(bed.folder / "autoscaler.yaml", folder)
    for file in daemon.state_directory(bed).iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    with (folder / "syncs.jsonl").open("w") as lines:
        lines.writelines(_syncs(daemon.log_file(bed)))


def _syncs(log: Path) -> Iterator[str]:
    with log.open() as lines:
        yield from (line for line in lines if '"event": "sync"' in line)
