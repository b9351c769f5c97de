"""Where the binaries come from, with a Go that only pretends to build."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import binaries, build
from tests.controlplane.binaries import APISERVER, CONTROLLER_MANAGER, ETCD, ControlPlaneUnavailable
from tests.controlplane.fixtures import unavailable

# It answers `go env`, takes a moment for `go build`, and keeps a record of what it builds.
PRETEND_GO = """#!/bin/sh
case "$1" in
env) echo "$PRETEND_GO_VERSION" ;;
build)
    test -n "$PRETEND_GO_ERROR" && { echo "$PRETEND_GO_ERROR" >&2; exit 1; }
    sleep 0.3
    while [ "$1" != "-o" ]; do shift; done
    echo "$3" >> "$PRETEND_GO_RECORD"
    echo binary > "$2" ;;
esac
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty cache and no assets."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("AUTOSCALER_TEST_CACHE", str(folder))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return folder


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the pretended Go on the PATH, and return the record of what it builds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "go").write_text(PRETEND_GO)
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("PRETEND_GO_VERSION", "go1.26.0")
    monkeypatch.setenv("PRETEND_GO_RECORD", str(tmp_path / "record"))
    (tmp_path / "record").touch()
    return tmp_path / "record"


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder of assets: etcd and kube-apiserver, as in published assets."""
    folder = tmp_path / "assets"
    folder.mkdir()
    for name in (ETCD, APISERVER):
        (folder / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    return folder


def test_a_binary_is_built_once(cache: Path, record: Path) -> None:
    """The first call builds into the cache, with a word of warning; the second finds it there."""
    told: list[str] = []
    first = binaries.locate([ETCD], told.append)[ETCD]
    assert first.read_text() == "binary\n"
    assert cache in first.parents
    assert told == [f"building etcd for Kubernetes {binaries.kubernetes_version()}, once"]
    assert binaries.locate([ETCD], told.append)[ETCD] == first
    assert record.read_text().splitlines() == [binaries.PACKAGES[ETCD]]
    assert len(told) == 1


def test_another_go_builds_anew(cache: Path, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The binaries of one Go version do not serve another."""
    first = binaries.locate([ETCD])[ETCD]
    monkeypatch.setenv("PRETEND_GO_VERSION", "go1.26.1")
    assert binaries.locate([ETCD])[ETCD] != first
    assert len(record.read_text().splitlines()) == 2
    assert {path.parent for path in (first, binaries.locate([ETCD])[ETCD])} <= set(cache.iterdir())


@pytest.mark.usefixtures("cache")
def test_two_processes_build_once(record: Path) -> None:
    """Of two processes that need a binary at the same time, one builds and the other waits."""
    script = "from tests.controlplane.binaries import locate; print(*locate(['etcd']).values())"
    children = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = {child.communicate(timeout=30)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert len(printed) == 1
    assert record.read_text().splitlines() == [binaries.PACKAGES[ETCD]]


@pytest.mark.usefixtures("record")
def test_a_failed_build_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason carries what Go said, and the next call builds again."""
    monkeypatch.setenv("PRETEND_GO_ERROR", "no module today")
    with pytest.raises(ControlPlaneUnavailable, match=r"go build[\s\S]*no module today"):
        binaries.locate([ETCD])
    assert [path.name for path in cache.rglob("*") if path.is_file()] == [".lock"]
    monkeypatch.delenv("PRETEND_GO_ERROR")
    assert binaries.locate([ETCD])[ETCD].is_file()


@pytest.mark.usefixtures("cache")
def test_without_go_the_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are neither assets nor Go, the control plane is unavailable."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ControlPlaneUnavailable, match="no Go on the PATH"):
        binaries.locate([ETCD])


@pytest.mark.usefixtures("record")
def test_the_prebuild_prints_paths(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output of a build ahead of the tests holds the paths alone."""
    assert build.main([ETCD, APISERVER]) == 0
    printed = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.name for path in printed] == [ETCD, APISERVER]
    assert all(path.is_file() and cache in path.parents for path in printed)
    assert build.main(["kubectl"]) == 2


@pytest.mark.usefixtures("cache")
def test_assets_come_first(assets: Path, record: Path) -> None:
    """The assets' etcd and apiserver are used, and only what they never hold is built."""
    found = binaries.locate()
    assert found[ETCD] == assets / ETCD
    assert found[APISERVER] == assets / APISERVER
    assert found[CONTROLLER_MANAGER].read_text() == "binary\n"
    assert record.read_text().splitlines() == [binaries.PACKAGES[CONTROLLER_MANAGER]]


@pytest.mark.usefixtures("cache", "record")
def test_incomplete_assets_are_refused(assets: Path) -> None:
    """A folder without kube-apiserver is a mistake, which no build covers up."""
    (assets / APISERVER).unlink()
    with pytest.raises(ControlPlaneUnavailable, match="holds no kube-apiserver"):
        binaries.locate()


def test_what_is_unavailable_skips_but_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing control plane skips a test at a developer's machine and fails it under CI."""
    # A skip that escapes would skip this test instead of failing it, so both are caught.
    outcomes = (pytest.skip.Exception, pytest.fail.Exception)
    for ci, outcome in (("", pytest.skip.Exception), ("true", pytest.fail.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcomes, match="no control plane: no Go") as caught:
            unavailable(ControlPlaneUnavailable("no Go"))
        assert caught.type is outcome
