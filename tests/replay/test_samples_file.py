"""Files of samples are read, or refused with the line of each mistake."""

import errno
import gzip
import os
from pathlib import Path

import pytest

from autoscaler.core.series import QueryResult
from autoscaler.lab.past.file_data import Samples, SamplesError, read_samples
from tests.core.builders import BASE
from tests.narrowing import assert_parts, instance, known

START = int(BASE)


def written(folder: Path, text: str, name: str = "load.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(path: Path) -> list[str]:
    with pytest.raises(SamplesError) as refusal:
        read_samples(path)
    return str(refusal.value).splitlines()


def assert_mistakes(path: Path, *mistakes: str) -> None:
    """Check that a file is refused with these mistakes: the line, if there is one, and a value."""
    for message, mistake in zip(refused(path), mistakes, strict=True):
        line, _, value = mistake.rpartition(": ")
        assert message.startswith(f"{path}:{line}:" if line else f"{path}")
        assert_parts(message, value)


def values(samples: Samples, *seconds: float) -> list[float | None]:
    """Return the value at each instant, in seconds after START; None without a value."""
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
    assert_mistakes(path, "gzip")
    path.write_bytes(b"t,value\n1,2\n")
    assert_mistakes(path, "gzip")


def test_every_mistake_has_its_line_and_value(tmp_path: Path) -> None:
    rows = "1,2,3\n1,3,3\n0,4,3\nnoon,4,3\n5,NaN,3\n6\n7,x,3\n8,4,2.5\n"
    path = written(tmp_path, f"t,value,replicas\n{rows}")
    assert_mistakes(
        path, "3: '1'", "4: '0'", "5: 'noon'", "6: 'NaN'", "7: 1 columns", "8: 'x'", "9: '2.5'"
    )


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "1: t,value,replicas"),
        ("t,value\n", "no rows"),
        ("1,2\n3,4\n", "1: '1,2'"),
        ("t,value,pods\n1,2,3\n", "1: 'pods'"),
        ("t,value\n1,2\n\0" + "3" * 5000, "3: 4096 bytes"),
        ("t,value\n1e999,2\n", "2: '1e999'"),
        *(
            (f"t,value,replicas\n1,2,{count}\n", f"2: {count!r}")
            for count in ("-1", "0.5", "150001", "1e18", "1e308")
        ),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, mistake: str) -> None:
    assert_mistakes(written(tmp_path, text), mistake)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    assert_mistakes(path, os.strerror(errno.ENOENT))
    path.write_bytes(b"t,value\n\xff\xfe\n")
    assert_mistakes(path, "UTF-8")
    assert_mistakes(tmp_path, os.strerror(errno.EISDIR))


def test_blank_lines_are_not_read_without_end(tmp_path: Path) -> None:
    """A small packed file can have millions: no more are read than there are samples, or 1,000."""
    path = tmp_path / "load.csv.gz"
    path.write_bytes(gzip.compress(b"t,value\n1,2\n" + b"\n" * 20_000_000))
    assert_mistakes(path, "1004: blank")
    between = "".join(f"{at},1\n\n" for at in range(5000))
    assert len(read_samples(written(tmp_path, "t,value\n" + between)).times) == 5000


def test_no_more_than_twenty_mistakes_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path, "t,value\n" + "x,1\n" * 1000)
    assert_mistakes(path, *(f"{line}: 'x'" for line in range(2, 22)), "further")
