"""Stored histories are read back exactly."""

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.history import History, Recommendation, shifted
from autoscaler.persistence.sqlite_files import create_tables
from autoscaler.persistence.store import SqliteHistoryStore
from autoscaler.persistence.store.rows import OF_A_TARGET, SCHEMA, Changes, Record, read
from tests.adapters.store.histories import decided_at, histories, nth
from tests.adapters.store.opening import T0, Time, kept_in, running, same

targets = st.sampled_from(("shop/Deployment/a", "shop/Deployment/b", "other/StatefulSet/a"))


@dataclass
class Model:
    """The expected content of a store."""

    histories: dict[str, History] = field(default_factory=dict)
    time: Time = field(default_factory=Time)

    def keep(self, store: SqliteHistoryStore, histories: dict[str, History]) -> None:
        decided = self.time.wall
        store.keep([(target, history, decided) for target, history in histories.items()])
        self.histories |= histories

    def intend(self, store: SqliteHistoryStore, target: str, history: History) -> None:
        store.intend(target, history)
        self.histories[target] = history

    def drop(self, store: SqliteHistoryStore, gone: set[str]) -> None:
        store.drop(gone)
        self.histories = {
            key: history for key, history in self.histories.items() if key not in gone
        }

    def shift(self, store: SqliteHistoryStore, seconds: float) -> None:
        self.time.wall += seconds
        store.shift(seconds)
        self.histories = {key: shifted(history, seconds) for key, history in self.histories.items()}


Step = Callable[[Model, SqliteHistoryStore], None]
steps: st.SearchStrategy[Step] = st.one_of(
    st.dictionaries(targets, histories).map(lambda some: lambda model, to: model.keep(to, some)),
    st.tuples(targets, histories).map(lambda history: lambda model, to: model.intend(to, *history)),
    st.sets(targets).map(lambda gone: lambda model, to: model.drop(to, gone)),
    st.floats(-1e6, 1e6).map(lambda seconds: lambda model, to: model.shift(to, seconds)),
)


@settings(max_examples=40)
@given(st.lists(st.lists(steps, max_size=6), min_size=1, max_size=3))
def test_any_sequence_of_calls_survives_a_restart(runs: list[list[Step]]) -> None:
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        for run in runs:
            with running(Path(folder), time=model.time) as (store, _):
                for step in run:
                    step(model, store)
            found = kept_in(Path(folder), model.time)
            assert found.keys() == model.histories.keys()
            assert all(same(found[key], history) for key, history in model.histories.items())


@settings(max_examples=150)
@given(histories, histories)
def test_the_rows_that_differ_lead_from_any_history_to_any_other(
    old: History, new: History
) -> None:
    assert_leads(old, new)


def assert_leads(old: History, new: History) -> None:
    """Write a history, then what another one differs by, and find the other one."""
    with closing(sqlite3.connect(":memory:")) as connection:
        create_tables(connection, SCHEMA)
        for before, after in ((None, Record(old)), (Record(old), Record(new))):
            changes = Changes()
            changes.write(7, "shop/Deployment/a", before, after)
            changes.apply(connection)
        assert same(read(connection).records["shop/Deployment/a"].history, new)


@settings(max_examples=150)
@given(histories, histories, st.sampled_from([field.name for field in fields(History)]))
def test_a_field_that_alone_differs_is_written(old: History, other: History, name: str) -> None:
    assert_leads(old, replace(old, **{name: getattr(other, name)}))


def test_only_what_changed_is_written() -> None:
    before = nth(9)
    equal = replace(nth(9), recommendations=before.recommendations)
    latest = Recommendation(7, T0 + 150.0)
    after = replace(nth(9), recommendations=(*(before.recommendations or ())[:-1], latest))
    rows: list[int] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        create_tables(connection, SCHEMA)
        for old, new in (
            (Record(History()), Record(before, T0)),
            (Record(before, T0), Record(equal, T0)),
            (Record(before, T0), Record(after, T0 + 15.0)),
        ):
            changes = Changes()
            changes.write(1, "a", old, new)
            changes.apply(connection)
            rows.append(connection.total_changes - sum(rows))
    assert rows == [7, 0, 2]


def test_a_target_that_was_dropped_begins_anew(tmp_path: Path) -> None:
    with running(tmp_path) as (store, _):
        store.keep([("shop/Deployment/a", nth(9), decided_at(1)), ("b", nth(3), decided_at(1))])
    with running(tmp_path) as (store, _):
        store.drop(["shop/Deployment/a", "never kept"])
    with running(tmp_path) as (store, resumption):
        assert resumption.histories == {"b": nth(3)}
        store.intend("shop/Deployment/a", History())
    assert kept_in(tmp_path) == {"shop/Deployment/a": History(), "b": nth(3)}


def test_every_table_of_targets_is_known() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        create_tables(connection, SCHEMA)
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        of_a_target = {
            name
            for (name,) in connection.execute(tables).fetchall()
            if "target" in {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        }
    assert of_a_target == set(OF_A_TARGET)
