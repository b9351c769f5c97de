"""What both sides did, as files that can be compared afterwards.

`hpa.jsonl` has a line for each event of a watch of the HPAs: `time` (Unix seconds when it came),
`type` and the whole `object`. `syncs.jsonl` has the daemon's line of each sync of a target.
`record.db` is its record, `autoscaler.yaml` its configuration, `autoscaler.log` all of its log.
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
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.waiting import Background


class HpaLog(Background):
    """Writes each event of the namespace's HPAs to a file, from their state at its begin on."""

    def __init__(self, api: Api, file: Path) -> None:
        super().__init__()
        self._api = api
        self._file = file.open("w")
        listed = api.get(fleet.HPAS)
        self._version = listed["metadata"]["resourceVersion"]
        self._watch = api.watch(fleet.HPAS, resourceVersion=self._version)
        for item in listed["items"]:
            self._write({"type": "ADDED", "object": item})

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watch.cancel()
        super().__exit__()
        self._file.close()

    def _run(self) -> None:
        # An API server ends each watch after an hour at the latest.
        while not self._ended.is_set():
            with suppress(requests.RequestException):
                for event in self._watch:
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    self._write(event)
            if not self._ended.is_set():
                self._watch = self._api.watch(fleet.HPAS, resourceVersion=self._version)

    def _write(self, event: Json) -> None:
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
