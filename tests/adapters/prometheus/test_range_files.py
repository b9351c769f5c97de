"""Answers on disk: written files are read again, and damaged ones are ignored."""

import json
import os
import pickle
import tracemalloc
import zlib
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.lab.past.range_files import (
    RangeFiles,
    RangeKey,
    default_folder,
    identity_of,
    read_part,
)
from autoscaler.lab.past.ranges import Grid, Matrix, MatrixSeries, cut
from tests.adapters.prometheus.reading import basic_auth, settings

KEY = RangeKey("server", "sum(x)", Grid(15_000, 0))


def line(begin: int, end: int, **labels: str) -> MatrixSeries:
    """Return a series whose values are the numbers of its instants."""
    return MatrixSeries(labels, [(begin, end - begin)], array("d", range(begin, end)))


def write_spans(files: RangeFiles, *spans: tuple[int, int], key: RangeKey = KEY) -> None:
    for begin, end in spans:
        files.write(key, begin, end, Matrix([line(begin, end)]))


def spans(files: RangeFiles, begin: int, end: int, key: RangeKey = KEY) -> list[tuple[int, int]]:
    return [(part.begin, part.end) for part in files.covering(key, begin, end)]


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
            st.dictionaries(st.integers(0, 40), st.floats(), min_size=1),
        ),
        max_size=4,
    ),
    st.lists(st.text(max_size=9), max_size=2),
    st.integers(0, 40),
    st.integers(0, 41),
)
def test_a_written_file_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    several: list[tuple[dict[str, str], dict[int, float]]],
    warnings: list[str],
    begin: int,
    end: int,
) -> None:
    files = RangeFiles(tmp_path_factory.mktemp("ranges"))
    series = [
        MatrixSeries(
            labels, [(at, 1) for at in sorted(of)], array("d", [of[at] for at in sorted(of)])
        )
        for labels, of in several
    ]
    part = files.write(KEY, 0, 41, Matrix(series, tuple(warnings)))
    found = read_part(KEY, part._replace(begin=begin, end=end))
    assert found.warnings == tuple(warnings)
    expected = [
        (labels, {at: repr(value) for at, value in of.items() if begin <= at < end})
        for labels, of in several
    ]
    assert [(series.labels, _samples(series)) for series in found.series] == [
        (labels, of) for labels, of in expected if of
    ]


def _samples(series: MatrixSeries) -> dict[int, str]:
    numbers = [at for first, count in series.runs for at in range(first, first + count)]
    return dict(zip(numbers, map(repr, series.values), strict=True))


@pytest.mark.parametrize(
    ("stored", "begin", "end", "found"),
    [
        ([], 0, 10, []),
        ([(0, 10)], 0, 10, [(0, 10)]),
        ([(0, 100)], 20, 30, [(20, 30)]),
        ([(0, 5), (5, 10)], 0, 10, [(0, 5), (5, 10)]),
        ([(0, 5), (3, 8), (2, 6)], 0, 10, [(0, 5), (5, 8)]),
        ([(2, 4), (6, 20)], 0, 10, [(2, 4), (6, 10)]),
        ([(0, 3), (0, 9)], 0, 10, [(0, 9)]),
        ([(20, 30)], 0, 10, []),
    ],
)
def test_stored_parts_of_a_range_are_found(
    tmp_path: Path,
    stored: list[tuple[int, int]],
    begin: int,
    end: int,
    found: list[tuple[int, int]],
) -> None:
    files = RangeFiles(tmp_path)
    write_spans(files, *stored)
    assert spans(files, begin, end) == found


@pytest.mark.parametrize(
    "other",
    [
        RangeKey("another", KEY.promql, KEY.grid),
        RangeKey(KEY.server, "sum(y)", KEY.grid),
        RangeKey(KEY.server, KEY.promql, Grid(30_000, 0)),
        RangeKey(KEY.server, KEY.promql, Grid(15_000, 7)),
        RangeKey(KEY.server, KEY.promql, KEY.grid, "totals"),
    ],
)
def test_a_file_belongs_to_one_query(tmp_path: Path, other: RangeKey) -> None:
    files = RangeFiles(tmp_path)
    part = files.write(KEY, 0, 10, Matrix([line(0, 10)]))
    assert spans(files, 0, 10, other) == []
    folder = tmp_path / other.digest
    folder.mkdir(exist_ok=True)
    (folder / part.file.name).write_bytes(part.file.read_bytes())
    assert spans(files, 0, 10, other) == []


def test_a_damaged_file_is_ignored(tmp_path: Path) -> None:
    files = RangeFiles(tmp_path)
    file = files.write(KEY, 0, 10, Matrix([line(0, 10)])).file
    content = file.read_bytes()
    for at in range(0, len(content), 3):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert spans(files, 0, 10) == [], at
        file.write_bytes(content[:at])
        assert spans(files, 0, 10) == [], at
    file.write_bytes(content)
    assert spans(files, 0, 10) == [(0, 10)]
    file.unlink()
    file.mkdir()
    assert spans(files, 0, 10) == []


def _body(head: object, values: bytes) -> bytes:
    return json.dumps(head).encode() + b"\n" + values


def _head(**changed: object) -> list[object]:
    item = {"labels": {}, "runs": [[0, 10]], **changed}
    whole = {"key": KEY.text, "warnings": [], "series": [[item["labels"], item["runs"]]], **changed}
    return [whole["key"], whole["warnings"], whole["series"]]


_VALUES = zlib.compress(array("d", range(10)).tobytes())
_NO_HEADS: tuple[object, ...] = ([], None, {})
_WRONG: dict[str, list[object]] = {
    "key": [None],
    "warnings": ["none", [1]],
    "series": [{}, [5], []],
    "labels": [[], {"pod": 5}],
    "runs": [
        *(5, [[0, 5, 5]], [["0", 10]], [[0, 9]], [[0, 10**18]], [[-5, 10]]),
        *([[5, 5], [0, 5]], [[0, 5], [4, 5]], [[0, 10], [10, 0]]),
    ],
}
_WRONG_VALUES = (
    *(_VALUES[:-12], b"", b"no zlib"),
    *(zlib.compress(bytes(79)), zlib.compress(bytes(10**8))),
)


@pytest.mark.parametrize(
    "body",
    [
        *(b"[" * 100_000, b"9" * 100_000, b"", b"\xff\n", b"{}"),
        *(_body(head, _VALUES) for head in _NO_HEADS),
        *(
            _body(_head(**{key: value}), _VALUES)
            for key, values in _WRONG.items()
            for value in values
        ),
        *(_body(_head(), values) for values in _WRONG_VALUES),
    ],
)
def test_a_file_of_another_shape_is_ignored(tmp_path: Path, body: bytes) -> None:
    files = RangeFiles(tmp_path)
    file = tmp_path / KEY.digest / "0-10.range"
    file.parent.mkdir()
    right = _body(_head(), _VALUES)
    file.write_bytes(b"%08x\n" % zlib.crc32(right) + right)
    assert spans(files, 0, 10) == [(0, 10)]
    file.write_bytes(b"%08x\n" % zlib.crc32(body) + body)
    tracemalloc.start()
    assert spans(files, 0, 10) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000


def test_names_and_links_of_strangers_do_no_harm(tmp_path: Path) -> None:
    files, other = RangeFiles(tmp_path / "cache", most_bytes=0), tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("mine")
    (tmp_path / "cache" / ("0" * 32)).symlink_to(other)
    folder = tmp_path / "cache" / KEY.digest
    folder.mkdir()
    for name in ("²-10.range", "-.range", "0.range", "-5-3.range"):
        (folder / name).write_bytes(b"")
    os.mkfifo(folder / "0-10.range")
    assert spans(files, 0, 10) == []
    files.prune()
    assert (other / "mine").read_text() == "mine"


def test_files_that_were_not_used_for_longest_go_first(tmp_path: Path) -> None:
    other, empty = tmp_path / "mine" / "0-10.range", tmp_path / "empty"
    other.parent.mkdir()
    empty.mkdir()
    other.write_bytes(b"x" * 100_000)
    files = RangeFiles(tmp_path, most_bytes=1_000)
    for number in range(20):
        write_spans(files, (number, number + 10), key=RangeKey("server", str(number), KEY.grid))
    used = RangeKey("server", "3", KEY.grid)
    for part in tmp_path.glob("*/*.range"):
        written_at = 1 if part.parent.name == used.digest else 2
        os.utime(part, (written_at, written_at))
    assert spans(files, 3, 13, used) == [(3, 13)]
    files.prune()
    left = [file for file in tmp_path.glob("*/*.range") if file != other]
    assert 0 < sum(value.stat().st_size for value in left) <= 1_000
    assert spans(files, 3, 13, used) == [(3, 13)]
    assert other.exists()
    assert empty.exists()
    assert len(list(tmp_path.iterdir())) == len(left) + 2


def test_files_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    """The load of a company is nobody else's matter."""
    files = RangeFiles(tmp_path / "a" / "b")
    file = files.write(KEY, 0, 10, Matrix([])).file
    assert [item.stat().st_mode & 0o777 for item in (file, file.parent, file.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]


def test_a_matrix_is_cut_to_a_part() -> None:
    matrix = Matrix([line(0, 5, a="1"), line(8, 10, a="2")], ("a warning",))
    assert cut(matrix, 3, 7) == Matrix(
        [MatrixSeries({"a": "1"}, [(3, 2)], array("d", [3, 4]))], ("a warning",)
    )


def test_answers_belong_to_a_server_a_tenant_and_a_user(tmp_path: Path) -> None:
    several = [
        settings("http://p"),
        settings("http://q"),
        settings("http://p", headers={"X-Scope-OrgID": "tenant-1"}),
        settings("http://p", headers={"X-Scope-OrgID": "tenant-2"}),
        settings("http://p", query_parameters={"dedup": ("true",)}),
        settings("http://p", basic_auth=basic_auth("me", tmp_path / "password")),
        settings("http://p", headers_files={"X-Scope-OrgID": Path("/run/tenant")}),
    ]
    identities = [identity_of(setting) for setting in several]
    assert len(set(identities)) == len(several)
    assert identity_of(settings("http://p", timeout=3.0)) == identities[0]
    assert "tenant-1" not in RangeKey(identities[2], "x", KEY.grid).text
    assert pickle.loads(pickle.dumps(KEY)) == KEY  # noqa: S301 - its own


def test_the_files_of_commands_are_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for base, folder in (
        ("/var/cache/me", Path("/var/cache/me/autoscaler/ranges")),
        ("relative", Path.home() / ".cache/autoscaler/ranges"),
        ("", Path.home() / ".cache/autoscaler/ranges"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert default_folder() == folder
