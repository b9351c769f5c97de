"""A record in a real file of the results that are handed in, written without a thread."""

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

from autoscaler.adapters.record import RecordWriter, SyncRow
from autoscaler.adapters.record.file import RecordFile, open_file
from autoscaler.core.spec import Flags
from autoscaler.daemon.recording import Recorder
from tests.worlds.pages.fleets import Fleet

_ROWS = 1000
"""Of one transaction, as the daemon's."""


class _Writer:
    """What a `Recorder` hands rows to; they are written at once and none is lost."""

    epoch = 0

    def __init__(self, file: RecordFile) -> None:
        self._file = file
        self._rows: list[SyncRow] = []

    def retain(self, targets: Collection[str]) -> None:
        """Do nothing: nothing is recorded of others."""

    def put(self, row: SyncRow) -> None:
        """Write a row, sooner or later."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self.write()

    def write(self) -> None:
        """Write what waits."""
        if self._rows:
            self._file.write(self._rows, self._rows[-1].time)
            self._rows = []


@contextmanager
def recorded(directory: Path, fleet: Fleet) -> Iterator[Recorder]:
    """Give what records a fleet's results in a state directory; at the end all is in the file."""
    with closing(open_file(directory, fleet.begin, print)) as file:
        writer = _Writer(file)
        recorder = Recorder(cast("RecordWriter", writer))
        recorder.configure([player.target for player in fleet.players], Flags())
        yield recorder
        writer.write()
        file.finish()
