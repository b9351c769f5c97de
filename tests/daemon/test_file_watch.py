"""Changes of the configuration's files are noticed by their content, once, and when complete."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.config import ConfigError, load
from autoscaler.config.settings import Sources
from autoscaler.daemon.reload import FileSource

MAIN = "prometheus: {url: http://p:9090}\ninclude: [targets.d/*.yaml]\n"


def row(name: str) -> str:
    """Return an included file with a target of this name.

    Where looks follow each other at once, and not by the second, texts must differ in length: the
    file system's times have steps of milliseconds.
    """
    ref = f"{{apiVersion: apps/v1, kind: Deployment, name: {name}}}"
    return f"targets:\n- {{namespace: shop, scaleTargetRef: {ref}, maxReplicas: 3}}\n"


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """Give a configuration that includes one file."""
    path = tmp_path / "autoscaler.yaml"
    path.write_text(MAIN)
    (tmp_path / "targets.d").mkdir()
    (tmp_path / "targets.d" / "a.yaml").write_text(row("a"))
    return path


def sources_of(main: Path) -> Sources:
    """Load, and return what was read, whatever was made of it."""
    try:
        return load(main).sources
    except ConfigError as error:
        return error.sources


def armed(main: Path) -> FileSource:
    """Load, and return a watch that has looked once and seen nothing new."""
    watch = FileSource(main, sources_of(main))
    assert not watch.changed()
    return watch


def changes(watch: FileSource) -> int:
    """Look four times, and count how often a change was noticed."""
    return sum(watch.changed() for _ in range(4))


def replaced(path: Path, text: str) -> None:
    """Put a new file in the place of another, as most editors and tools do."""
    new = path.with_name(".new")
    new.write_text(text)
    new.replace(path)


def same_size_and_time(main: Path) -> None:
    """Change the content as rsync or cp -p do."""
    before = main.stat()
    while main.stat().st_ctime_ns == before.st_ctime_ns:  # in steps of milliseconds
        main.write_text(MAIN.replace("//p:", "//q:"))
        os.utime(main, ns=(before.st_atime_ns, before.st_mtime_ns))


def pipe(main: Path) -> None:
    """Put a pipe in the place of a file; nothing may wait for what comes through it."""
    main.unlink()
    os.mkfifo(main)


CHANGES: dict[str, Callable[[Path], object]] = {
    "main-in-place": lambda main: main.write_text(MAIN + "syncPeriod: 1m\n"),
    "main-replaced": lambda main: replaced(main, MAIN + "syncPeriod: 1m\n"),
    "main-gone": lambda main: main.unlink(),
    "main-same-size-and-time": same_size_and_time,
    "main-pipe": pipe,
    "included-in-place": lambda main: (main.parent / "targets.d/a.yaml").write_text(row("other")),
    "included-replaced": lambda main: replaced(main.parent / "targets.d/a.yaml", row("other")),
    "included-gone": lambda main: (main.parent / "targets.d/a.yaml").unlink(),
    "included-renamed": lambda main: (main.parent / "targets.d/a.yaml").rename(
        main.parent / "targets.d/z.yaml"
    ),
    "included-new": lambda main: (main.parent / "targets.d/b.yaml").write_text(row("other")),
    "included-dangling-link": lambda main: (main.parent / "targets.d/b.yaml").symlink_to("no"),
    "folder-gone": lambda main: (main.parent / "targets.d").rename(main.parent / "gone"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_noticed_once_at_the_second_look(
    main: Path, change: Callable[[Path], object]
) -> None:
    watch = armed(main)
    change(main)
    assert [watch.changed() for _ in range(4)] == [False, True, False, False]
    watch.rearm(sources_of(main))
    assert changes(watch) == 0


@pytest.mark.parametrize(
    "name", [".#a.yaml", ".a.yaml.swp", "a.yaml~", "README", "deeper/a.yaml", "4913"]
)
def test_files_of_editors_are_ignored(main: Path, name: str) -> None:
    watch = armed(main)
    (main.parent / "targets.d" / name).parent.mkdir(exist_ok=True)
    (main.parent / "targets.d" / name).write_text("x")
    assert changes(watch) == 0


def test_a_file_that_is_touched_or_written_with_the_same_content_is_unchanged(main: Path) -> None:
    watch = armed(main)
    for write in (
        lambda: os.utime(main, (1, 1)),
        lambda: main.write_text(MAIN),
        lambda: replaced(main, MAIN),
    ):
        write()
        assert changes(watch) == 0


def test_a_file_that_grows_is_noticed_when_it_is_complete(main: Path) -> None:
    watch = armed(main)
    text = MAIN + "tolerance: 0.2\nsyncPeriod: 1m\n"
    for end in range(0, len(text), 10):
        main.write_text(text[:end])
        assert not watch.changed()
    main.write_text(text)
    assert [watch.changed() for _ in range(3)] == [False, True, False]


def test_a_new_version_of_a_mounted_config_map_is_noticed(tmp_path: Path) -> None:
    """The kubelet swaps one link, `..data`; no name in the folder itself changes."""
    for version, text in (("..1", row("a")), ("..2", row("other"))):
        (tmp_path / version / "t").mkdir(parents=True)
        (tmp_path / version / "autoscaler.yaml").write_text(MAIN.replace("targets.d", "."))
        (tmp_path / version / "a.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    for name in ("autoscaler.yaml", "a.yaml"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    main = tmp_path / "autoscaler.yaml"
    watch = armed(main)
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    assert [watch.changed() for _ in range(3)] == [False, True, False]
    config = load(main)
    assert config.targets[0].key == "shop/Deployment/other"
    watch.rearm(config.sources)
    assert changes(watch) == 0


def test_a_change_during_a_load_is_noticed(main: Path) -> None:
    sources = sources_of(main)
    main.write_text(MAIN + "syncPeriod: 1m\n")
    assert changes(FileSource(main, sources)) == 1
    watch = armed(main)
    replaced(main, MAIN)
    assert changes(watch) == 1
    read = sources_of(main)
    replaced(main, MAIN + "syncPeriod: 2m\n")
    watch.rearm(read)
    assert changes(watch) == 1


def test_files_that_only_a_refused_configuration_includes_are_watched(main: Path) -> None:
    watch = armed(main)
    other = main.parent / "other.yaml"
    other.write_text("targets: [")
    main.write_text(MAIN.replace("[", "[other.yaml, missing.yaml, "))
    assert changes(watch) == 1
    with pytest.raises(ConfigError) as caught:
        load(main)
    watch.rearm(caught.value.sources)
    assert changes(watch) == 0
    other.write_text("targets: []\n")
    assert changes(watch) == 1
    watch.rearm(sources_of(main))
    (main.parent / "missing.yaml").write_text("targets: []\n")
    assert changes(watch) == 1
    config = load(main)
    watch.rearm(config.sources)
    assert changes(watch) == 0


def test_a_file_that_could_not_be_read_is_loaded_again(main: Path) -> None:
    """A right is given without writing the file, and free descriptors may be back."""
    main.chmod(0)
    watch = FileSource(main, Sources({main: None}))
    main.chmod(0o600)
    assert changes(watch) == 1
    watch = armed(main)
    watch.rearm(Sources({**sources_of(main).digests, main: None}, sources_of(main).include))
    assert changes(watch) == 1


NAMES = st.sampled_from(["autoscaler.yaml", "targets.d/a.yaml", "targets.d/b.yaml", "c.yaml"])
TEXTS = st.sampled_from([MAIN, row("a"), row("other"), "broken: [", MAIN.replace("[", "[c.yaml, ")])
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "replace", "remove", "link", "look"]), NAMES, TEXTS),
    max_size=12,
)


def step(kind: str, path: Path, text: str) -> None:
    if kind == "write" and not path.is_symlink():
        path.write_text(text)
    elif kind == "replace":
        replaced(path, text)
    elif kind == "remove":
        path.unlink(missing_ok=True)
    elif kind == "link":
        path.unlink(missing_ok=True)
        path.symlink_to("../autoscaler.yaml")


@settings(max_examples=200)
@given(STEPS)
def test_files_that_stop_changing_were_loaded_and_none_without_a_change(
    steps: list[tuple[str, str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        main = Path(name) / "autoscaler.yaml"
        (main.parent / "targets.d").mkdir()
        main.write_text(MAIN)
        loaded = sources_of(main)
        watch = FileSource(main, loaded)
        for kind, file, text in [*steps, *[("look", "", "")] * 3]:
            if kind == "look" and watch.changed():
                before, loaded = loaded, sources_of(main)
                assert loaded.digests != before.digests
                watch.rearm(loaded)
            elif kind != "look":
                step(kind, main.parent / file, text)
        assert sources_of(main).digests == loaded.digests
