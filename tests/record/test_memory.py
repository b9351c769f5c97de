"""The record that other tests read keeps what it is given."""

from autoscaler.core.entry import is_same, recompute
from autoscaler.record.rows import Mark
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.record.memory import MemoryRecord

WEB = "shop/Deployment/web"


def test_a_timeline_is_kept() -> None:
    """Changes with entries that are decided again the same, samples between them, and lapses."""
    record, timeline = MemoryRecord(), Timeline(spec(external(average("10"))), replicas=3)
    for second, queue in ((0, 30), (15, 31), (30, 31), (45, 60), (60, 60)):
        record.keep_synced(timeline.at(f"{second}s", queue=queue))
    record.keep_lapse(WEB, BASE + 61, BASE + 119)
    record.keep_synced(timeline.at("2m", queue=60))
    changes = record.changes(None, BASE, BASE + 600, limit=10)
    assert [one.time - BASE for one in changes] == [120.0, 60.0, 45.0, 0.0]
    assert record.changes([WEB], BASE, BASE + 600, limit=1, before=changes[0].id) == [changes[1]]
    assert (changes[2].current, changes[2].desired, changes[2].marks) == (3, 6, Mark.WRITTEN)
    assert record.change_at(WEB, BASE + 44) == changes[3]
    assert record.change_after(changes[3]) == changes[2]
    assert record.change_at(WEB, BASE - 1) is None
    for one in changes:
        entry = record.entry(one)
        assert is_same(recompute(entry), entry.decision)
    held = record.samples(WEB, BASE + 40, BASE + 46)
    assert [one.time - BASE for one in held] == [15.0, 45.0]
    assert list(record.samples(WEB, BASE + 100, BASE + 110)) == []
    after = record.samples(WEB, BASE + 100, BASE + 130)
    assert [one.time - BASE for one in after] == [120.0]
    assert record.lapses(WEB, BASE + 100, BASE + 110) == [(BASE + 61, BASE + 119)]
    assert record.targets() == [WEB]
    assert record.span() == (BASE, BASE + 120)
