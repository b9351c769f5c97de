"""`include`: the files, their order, and their problems."""

import os
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from autoscaler.cli.json_schemas import INCLUDED, json_schema
from autoscaler.config import Config, ConfigError, load
from autoscaler.config.documents import read
from tests.config.conftest import as_nobody
from tests.config.documents import EXTERNAL, PROMETHEUS, QUERIES, cases
from tests.config.schemas import validator
from tests.tables import rows

MAIN = PROMETHEUS + "include: [targets.d/*.yaml]\n"


def row(name: str, rest: str = "") -> str:
    return (
        "- namespace: shop\n"
        f"  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}\n"
        f"  maxReplicas: 3\n{rest}"
    )


def targets(*names: str) -> str:
    return "targets:\n" + "".join(row(name) for name in names)


QUEUE = "targets:\n" + row("queue", "  metrics:\n  " + EXTERNAL.replace("\n", "\n  ").rstrip(" "))


def write(folder: Path, files: dict[str, str], main: str = MAIN) -> Path:
    """Write a main file and others in its folder; return the main one."""
    for name, text in {"autoscaler.yaml": main, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "autoscaler.yaml"


def names_of(config: Config) -> list[str]:
    return [target.spec.scale_target_ref.name for target in config.targets]


def faults_of(main: Path) -> list[tuple[str, int | None, str, str]]:
    """Load a configuration that is wrong: file name, line, path and message of each fault."""
    with pytest.raises(ConfigError) as caught:
        load(main)
    folder = f"{main.parent}{os.sep}"
    return [
        (problem.file.removeprefix(folder), problem.line, problem.path, problem.message)
        for problem in caught.value.problems
    ]


def test_targets_of_all_files_are_in_order(tmp_path: Path) -> None:
    main = PROMETHEUS + "include: [more.yaml, 't?/*.yaml']\n" + targets("main")
    files = {
        "t2/a.yaml": targets("t2a"),
        "t1/b.yaml": targets("t1b"),
        "t1/a10.yaml": targets("t1a10", "another"),
        "t1/a9.yaml": targets("t1a9"),
        "more.yaml": targets("more"),
        "t3/README": "no YAML: {",
        "t4": "a file",
    }
    config = load(write(tmp_path, files, main))
    assert names_of(config) == ["main", "more", "t1a10", "another", "t1a9", "t1b", "t2a"]


def test_queries_are_shared_by_all_files(tmp_path: Path) -> None:
    main = MAIN + QUERIES + QUEUE.replace("name: queue}", "name: first}")
    third = QUEUE.replace("queue_length", "visitors").replace("name: queue}", "name: third}")
    files = {
        "targets.d/a.yaml": QUEUE,
        "targets.d/b.yaml": third,
        "targets.d/c.yaml": "queries: {visitors: sum(visitors)}\n",
    }
    first, second, found = load(write(tmp_path, files, main)).targets
    assert first.queries[0] is second.queries[0]
    assert found.queries[0].promql == "sum(visitors)"


def test_a_folder_without_files_is_valid(tmp_path: Path) -> None:
    (tmp_path / "targets.d").mkdir()
    config = load(write(tmp_path, {}))
    assert config.targets == ()
    assert config.sources.include == (tmp_path / "targets.d" / "*.yaml",)
    assert list(config.sources.digests) == [tmp_path / "autoscaler.yaml"]


LEFT_BESIDE = """
.#a.yaml .a.yaml.swp .a.yaml a.yaml~ #a.yaml# a.yml a.yaml.bak a.yaml.rpmsave 4913 A.YAML
.hidden/a.yaml deeper/a.yaml
"""


@pytest.mark.parametrize("name", LEFT_BESIDE.split())
def test_files_of_editors_are_not_included(tmp_path: Path, name: str) -> None:
    main = write(tmp_path, {"targets.d/b.yaml": targets("b"), f"targets.d/{name}": "{"})
    assert names_of(load(main)) == ["b"]


FOUND = """
the lock of Emacs, a link to nothing, is passed over
    | etc/targets.d/a.yaml=a | etc/targets.d/.#a.yaml=me@here.123:456 | targets.d/*.yaml
of a mounted ConfigMap each key is read once | etc/targets.d/..1/a.yaml=a
    | etc/targets.d/..data=..1 etc/targets.d/a.yaml=..data/a.yaml | '*/*.yaml', targets.d/*.yaml
a file that two patterns match is read once, and the main one never includes itself
    | etc/a.yaml=a etc/b.yaml=b etc/x/README= | etc/c.yaml=a.yaml
    | '*.yaml', ./a.yaml, 'x/../[ab].yaml', b.yaml
a file that is named may lead anywhere, and so may the folder of a pattern
    | available/a.yaml=a targets/b.yaml=b etc/enabled/README=
    | etc/enabled/a.yaml=../../available/a.yaml etc/targets.d=../targets
    | enabled/a.yaml, targets.d/*.yaml
a bracket in brackets stands for itself | etc/a[1].yaml=a | - | 'a[[]1].yaml'
a pattern may be absolute, or begin at the home folder
    | a/a.yaml=a b/b.yaml=b | - | 'FOLDER/a/*.yaml', ~/b/*.yaml
"""
"""Files with the targets in them, links with where they lead, and what is included."""


@pytest.mark.parametrize(
    ("files", "links", "include"),
    [pytest.param(*row, id=name) for name, *row in rows(FOUND)],
)
def test_each_file_is_read_once_by_any_of_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, links: str, include: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    main = PROMETHEUS + f"include: [{include}]\n".replace("FOLDER", str(tmp_path))
    named = dict(row.split("=") for row in files.split())
    write(tmp_path, {name: targets(*target) for name, target in named.items()})
    for name, there in (row.split("=") for row in links.strip("-").split()):
        (tmp_path / name).symlink_to(there)
    assert names_of(load(write(tmp_path / "etc", {}, main))) == [*filter(None, named.values())]


@pytest.mark.parametrize("link", ["a-link.yaml", "team"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, link: str, *, there: bool
) -> None:
    """A user who may write into the folder cannot read or find other files."""
    main = PROMETHEUS + "include: [targets.d/*.yaml, 'targets.d/*/a.yaml']\n"
    path = write(tmp_path / "etc", {"targets.d/a.yaml": targets("a")}, main)
    (tmp_path / "secret").mkdir()
    if there or link == "team":
        (tmp_path / "secret" / "a.yaml").write_text("hunter2: x\n")
    (tmp_path / "etc" / "targets.d" / link).symlink_to(
        tmp_path / "secret" / ("" if link == "team" else "a.yaml")
    )
    (fault,) = faults_of(path)
    name = "team/a.yaml" if link == "team" else link
    assert fault[2] == f"include[{int(link == 'team')}]"
    assert fault[3] == (
        f"{tmp_path}/etc/targets.d/{name} leads out of {tmp_path}/etc/targets.d by a link; right "
        "is a file there, or here the name of the file that it leads to"
    )


def test_patterns_begin_at_the_folder_of_the_main_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "etc", {"targets.d/a.yaml": targets("a", "a")})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load(Path("etc/autoscaler.yaml"))
    assert str(caught.value).startswith("etc/targets.d/a.yaml:5: targets[1]: scales Deployment a")
    assert caught.value.sources.include == (tmp_path / "etc" / "targets.d" / "*.yaml",)
    assert set(caught.value.sources.digests) == {
        tmp_path / "etc" / "autoscaler.yaml",
        tmp_path / "etc" / "targets.d" / "a.yaml",
    }


def test_every_problem_of_every_file_is_reported(tmp_path: Path) -> None:
    main = MAIN + "syncPeriod: 2h\n" + targets("x", "y")
    files = {
        "targets.d/a.yaml": "targets:\n" + row("a", "  minReplicas: 5\n") + row("y"),
        "targets.d/b.yaml": "targets: [\n",
        "targets.d/c.yaml": "",
        "targets.d/d.yaml": "queries: {a: up, a: up}\ntarget: []\n",
        "targets.d/e.yaml": "- a\n",
        "targets.d/f.yaml": "prometheus: {url: http://p}\ninclude: [g]\n" + targets("F_"),
    }
    faults = faults_of(write(tmp_path, files, main))
    assert [fault[:3] for fault in faults] == [
        ("autoscaler.yaml", 3, "syncPeriod"),
        ("targets.d/a.yaml", 4, "targets[0].maxReplicas"),
        ("targets.d/a.yaml", 6, "targets[1]"),
        ("targets.d/b.yaml", 2, ""),
        ("targets.d/c.yaml", None, ""),
        ("targets.d/d.yaml", 1, "queries.a"),
        ("targets.d/d.yaml", 2, "target"),
        ("targets.d/e.yaml", 1, ""),
        ("targets.d/f.yaml", 1, "prometheus"),
        ("targets.d/f.yaml", 2, "include"),
    ]
    messages = {place[2] or place[0]: place[3] for place in faults}
    assert "as targets[1] of " in messages["targets[1]"]
    assert f"{tmp_path}/autoscaler.yaml:8 does: a workload has one" in messages["targets[1]"]
    assert messages["targets.d/c.yaml"].startswith("the file is empty; an included file has")
    assert messages["targets.d/e.yaml"].startswith("an included file is a mapping")
    assert messages["prometheus"].startswith("belongs in the main file")
    assert messages["include"].startswith("belongs in the main file")
    assert "did you mean `targets`?" in messages["target"]


def test_a_query_name_in_two_files_is_refused(tmp_path: Path) -> None:
    files = {"targets.d/a.yaml": "\nqueries:\n  rps: up\n  other: up\n"}
    (fault,) = faults_of(write(tmp_path, files, MAIN + QUERIES))
    assert fault[:3] == ("targets.d/a.yaml", 3, "queries.rps")
    assert fault[3] == (
        f"is in {tmp_path}/autoscaler.yaml:3 too, and all files share their queries; keep one, or "
        "rename one"
    )


def test_an_unreadable_file_is_the_only_fault(tmp_path: Path) -> None:
    files = {"targets.d/a.yaml": QUEUE, "targets.d/b.yaml": "queries: {queue_length: [}\n"}
    (fault,) = faults_of(write(tmp_path, files))
    assert fault[0] == "targets.d/b.yaml"
    (tmp_path / "targets.d" / "b.yaml").write_text("queries: {}\n")
    (fault,) = faults_of(tmp_path / "autoscaler.yaml")
    assert fault[2] == "targets[0].metrics[0].external.metric.name"


def test_a_pipe_that_a_pattern_matches_is_skipped(tmp_path: Path) -> None:
    main = write(tmp_path, {"targets.d/a.yaml": targets("a")})
    os.mkfifo(tmp_path / "targets.d" / "b.yaml")
    assert names_of(load(main)) == ["a"]


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "targets.d").mkdir()
    (tmp_path / "targets.d" / "a.yaml").symlink_to("gone")
    (fault,) = faults_of(write(tmp_path, {}))
    assert fault == ("targets.d/a.yaml", None, "", "there is no such file")


MEANINGLESS = f"""
[a.yaml] => [0]: such as *.yaml, and there is no file FOLDER/a.yaml
[targets.d/*.yaml, x/a.yaml] => [1]: such as *.yaml, and there is no file FOLDER/x/a.yaml
[no/*.yaml] => [0]: must begin with a folder, and there is no folder FOLDER/n
[autoscaler.yaml/*] => [0]: there is no folder FOLDER/autoscaler.yaml
[targets.d] => [0]: targets.d is a folder; those in it are FOLDER/targets.d/*.yaml
['**/*.yaml'] => [0]: ** is not known here: * matches within one name
["a\\0"] => [0]: must be the name of a file, or a pattern
[{"a" * 300}] => [0]: must be the name of a file, or a pattern
[5] => [0]: must be a text
[''] => [0]: must not be empty
[] => : needs at least 1 entry
"""


@pytest.mark.parametrize(("include", "path", "fragment"), cases(str, "include", MEANINGLESS))
def test_a_wrong_include_is_refused_at_its_place(
    tmp_path: Path, include: str, path: str, fragment: str
) -> None:
    main = write(tmp_path, {"targets.d/a.yaml": targets("a")}, PROMETHEUS + f"include: {include}\n")
    faults = faults_of(main)
    (fault,) = (fault for fault in faults if fault[2] == path)
    assert fault[:2] == ("autoscaler.yaml", 2)
    assert fragment.replace("FOLDER", str(tmp_path)) in fault[3]
    assert "Traceback" not in str(faults)


def test_a_folder_without_the_right_to_list_is_refused(open_folder: Path) -> None:
    main = PROMETHEUS + "include: [targets.d/*.yaml, t/*/a.yaml]\n"
    write(open_folder, {"targets.d/a.yaml": targets("a"), "t/x/a.yaml": targets("b")}, main)
    (open_folder / "targets.d").chmod(0o311)
    (open_folder / "t" / "x").chmod(0o600)
    try:
        with as_nobody():
            first, second = faults_of(open_folder / "autoscaler.yaml")
    finally:
        (open_folder / "t" / "x").chmod(0o700)
        (open_folder / "targets.d").chmod(0o700)
    assert first[2:] == ("include[0]", f"this user may not list the folder {open_folder}/targets.d")
    assert second[2] == "include[1]"
    assert second[3].startswith("this user may not list the folder")


def test_the_schema_of_an_included_file_agrees_with_the_loader(tmp_path: Path) -> None:
    Draft202012Validator.check_schema(json_schema(INCLUDED))
    for text, right in (
        (QUEUE, True),
        (QUERIES, True),
        ("{}\n", True),
        (MAIN + QUEUE, False),
        ("targets: {}\n", False),
    ):
        main = write(
            tmp_path, {"targets.d/a.yaml": text}, MAIN + (QUERIES if text == QUEUE else "")
        )
        value: JsonValue = read(text, lambda *_: None)
        assert validator(INCLUDED).is_valid(value) is right
        assert right is not isinstance(outcome(main), ConfigError)


def outcome(main: Path) -> Config | ConfigError:
    try:
        return load(main)
    except ConfigError as error:
        return error
