"""Files of samples: what is taken, and what is refused with the line of each mistake."""

import gzip
from pathlib import Path

import pytest

from autoscaler.core.series import QueryResult
from autoscaler.lab.past.file_data import Samples, SamplesError, read_samples
from tests.core.builders import BASE
from tests.narrowing import instance, known

START = int(BASE)


def written(folder: Path, text: str, name: str = "load.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(path: Path) -> list[str]:
    with pytest.raises(SamplesError) as refusal:
        read_samples(path)
    return [line.removeprefix(str(path)).lstrip(": ") for line in str(refusal.value).splitlines()]


def values(samples: Samples, *seconds: float) -> list[float | None]:
    """Return the value at each instant, so many seconds after START; None where there is none."""
    answers, found = samples.answers(), []
    for second in seconds:
        answer = instance(QueryResult, answers(START + second))
        found.append(answer.series[0].value if answer.series else None)
    return found


def test_a_time_is_unix_seconds_or_rfc3339(tmp_path: Path) -> None:
    text = "Time,Value\n1767225600, 3\n\n2026-01-01T00:00:15Z,4\n2026-01-01T01:00:30.5+01:00,5\n"
    samples = read_samples(written(tmp_path, text))
    assert list(samples.times) == [1767225600.0, 1767225615.0, 1767225630.5]
    assert list(samples.values) == [3.0, 4.0, 5.0]
    assert samples.counts() is None


def test_a_value_holds_until_the_next_row_and_a_gap_is_a_gap(tmp_path: Path) -> None:
    """A row is missing at 30 s and two at 75 s: the last value holds for one and a half steps."""
    rows = "".join(f"{START + 15 * row},{row},2\n" for row in (0, 1, 3, 4, 7))
    samples = read_samples(written(tmp_path, "t,value,replicas\n" + rows))
    assert samples.step == 15
    assert values(samples, -1, 0, 14, 15, 30, 37, 38, 45, 60, 82, 83, 104, 105) == (
        [None, 0, 0, 1, 1, 1, None, 3, 4, 4, None, None, 7]
    )
    counts = known(samples.counts())
    answer = instance(QueryResult, counts(START))
    assert [series.value for series in answer.series] == [2]


def test_a_file_may_be_packed(tmp_path: Path) -> None:
    packed = gzip.compress(f"t,value\n{START},3\n".encode())
    path = tmp_path / "load.csv.gz"
    path.write_bytes(packed)
    assert list(read_samples(path).values) == [3.0]
    path.write_bytes(packed[:-9])
    assert refused(path) == ["the gzip file is truncated or corrupt"]
    path.write_bytes(b"t,value\n1,2\n")
    assert refused(path) == ["the gzip file is truncated or corrupt"]


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path, "t,value,replicas\n1,2,3\n1,3,3\n0,4,3\nnoon,4,3\n5,NaN,3\n6\n7,x,3\n8,4,2.5\n"
    )
    ordered = "rows are in the order of time, each instant once"
    left_out = "is not a number; leave out rows without a value"
    assert refused(path) == [
        f"3: the time '1' is there twice: {ordered}",
        f"4: the time '0' is before the time of the row above: {ordered}",
        "5: 'noon' is not a valid time: use Unix seconds or 2026-01-31T03:12:00Z",
        f"6: 'NaN' {left_out}",
        "7: it has 1 columns, and the first line names 3",
        f"8: 'x' {left_out}",
        "9: '2.5' is not a number of replicas from 0 to 150,000",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: the first line names the columns: t,value or t,value,replicas (got '')"),
        ("t,value\n", "it has no rows below the names of the columns"),
        (
            "1,2\n3,4\n",
            "1: the first line names the columns: t,value or t,value,replicas (got '1,2')",
        ),
        ("t,value,pods\n1,2,3\n", "1: a third column can only be replicas (got 'pods')"),
        ("t,value\n1,2\n\0" + "3" * 5000, "3: the line is longer than 4096 bytes"),
        (
            "t,value\n1e999,2\n",
            "2: '1e999' is not a valid time: use Unix seconds or 2026-01-31T03:12:00Z",
        ),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert refused(written(tmp_path, text)) == [said]


def test_what_is_no_file_of_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    assert refused(path) == ["cannot be read: No such file or directory"]
    path.write_bytes(b"t,value\n\xff\xfe\n")
    assert refused(path) == ["the file is not UTF-8; save it as UTF-8"]
    assert refused(tmp_path) == ["cannot be read: Is a directory"]


def test_blank_lines_are_not_read_without_end(tmp_path: Path) -> None:
    """A small packed file can have millions: no more are read than there are samples, or 1,000."""
    path = tmp_path / "load.csv.gz"
    path.write_bytes(gzip.compress(b"t,value\n1,2\n" + b"\n" * 20_000_000))
    assert refused(path) == ["1004: more lines are blank than have samples"]
    between = "".join(f"{at},1\n\n" for at in range(5000))
    assert len(read_samples(written(tmp_path, "t,value\n" + between)).times) == 5000


@pytest.mark.parametrize("count", ["-1", "0.5", "150001", "1e18", "1e308"])
def test_a_count_that_no_cluster_has_is_refused(tmp_path: Path, count: str) -> None:
    path = written(tmp_path, f"t,value,replicas\n1,2,{count}\n")
    assert refused(path) == [f"2: {count!r} is not a number of replicas from 0 to 150,000"]


def test_no_more_than_twenty_mistakes_are_told(tmp_path: Path) -> None:
    said = refused(written(tmp_path, "t,value\n" + "x,1\n" * 1000))
    assert len(said) == 21
    assert said[-1] == "it is not read further: mend these first"
