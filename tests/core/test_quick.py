"""Records that are made quickly are the dataclasses that they were."""

from dataclasses import dataclass, field, fields, replace

from autoscaler.core.history import Contention, History
from autoscaler.core.quick import changed, quick


@quick
@dataclass(frozen=True, slots=True)
class Note:
    """A record with every kind of field."""

    text: str
    at: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    why: str = field(default="", compare=False)


def test_fields_have_their_values_and_defaults() -> None:
    """By position and by name; a default that is made is made anew for each."""
    note = Note("a", why="b")
    assert (note.text, note.at, note.labels, note.why) == ("a", 0.0, {}, "b")
    assert note.labels is not Note("a").labels


def test_equality_and_hash_are_those_of_a_frozen_dataclass() -> None:
    """Fields that do not compare have no part in them."""
    assert Note("a", why="b") == Note("a", why="c") != Note("b")
    assert len({Contention(3), Contention(3), Contention(4)}) == 2
    assert replace(Note("a"), at=2.0) == Note("a", 2.0)


def test_a_changed_record_is_the_replaced_one() -> None:
    """Whichever field it is; the first record stays as it was."""
    before, other = (
        History(),
        History((), desired_replicas=4, zeroed_by_us=True, contention=Contention(6)),
    )
    for one in fields(History):
        value = getattr(other, one.name)
        assert changed(before, **{one.name: value}) == replace(before, **{one.name: value})
    assert before == History()
