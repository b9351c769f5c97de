"""No read goes through a whole table, however much is recorded."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from autoscaler.adapters import sqlite_files
from autoscaler.adapters.record import DirectoryRecord
from tests.adapters.record.recording import WEB, decided, plain, running
from tests.core.builders import BASE

_SHORT = re.compile(r"^SCAN (sqlite_schema|targets|runs|open|CONSTANT ROW)\b")
"""What may be read as a whole: as many rows as there are targets, and starts of the daemon."""


class Explained(sqlite3.Connection):
    """Keeps how each statement is carried out."""

    plans: list[tuple[str, str]] = []  # noqa: RUF012 - sqlite3 makes the connection

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Execute a statement."""
        if sql.startswith("SELECT") and not sql.endswith("ORDER BY id LIMIT 1"):
            steps = super().execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
            self.plans += [(sql, step[3]) for step in steps]
        return super().execute(sql, parameters)


def test_every_read_uses_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also once SQLite could have counted the rows."""
    with running(tmp_path) as writer:
        for number in range(50):
            for name in (WEB, "shop/Deployment/api"):
                writer.put(decided(seconds=15.0 * number, target=name))
                writer.put(plain(15.0 * number + 1, number, name))
    monkeypatch.setattr(
        sqlite_files,
        "_read_only",
        lambda path, **_: sqlite3.connect(path, factory=Explained),
    )
    record = DirectoryRecord(tmp_path)
    at = record.change_at(WEB, BASE + 300)
    assert at is not None
    assert record.change_after(at) is not None
    assert record.changes(None, BASE, BASE + 900, limit=5, before=at.id)
    assert record.changes([WEB], BASE, BASE + 900, limit=5)
    assert list(record.samples(WEB, BASE + 100, BASE + 200))
    record.entry(at)
    record.span()
    record.targets()
    record.standings()
    record.lapses(WEB, BASE, BASE + 900)
    plans = Explained.plans
    assert len(plans) > 15
    assert [one for one in plans if "SCAN" in one[1] and not _SHORT.match(one[1])] == []
    assert [one for one in plans if "TEMP B-TREE" in one[1]] == []
