"""The Dockerfile, as far as it can be judged without a registry: what goes in, and as whom it runs.

It has the steps of an installation (test_install), which is tried for real.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKING = {"mkdir", "venv", "--wheel-dir"}
"""What comes before a path in a command that makes it."""


def instructions() -> list[tuple[str, str]]:
    """Return the instructions and their arguments, without comments and broken lines."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if line.strip()]
    return [(name, " ".join(arguments.split())) for name, arguments in pairs]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage by its name; the image itself is the last, and ""."""
    found: dict[str, list[tuple[str, str]]] = {}
    stage: list[tuple[str, str]] = []
    for name, arguments in instructions():
        if name == "FROM":
            found[arguments.partition(" AS ")[2]] = stage = []
        else:
            stage.append((name, arguments))
    return found


def is_made(path: str, stage: list[tuple[str, str]]) -> bool:
    """Tell whether a stage makes a folder, or copies something there."""
    words = [(name, arguments.split()) for name, arguments in stage]
    return any(
        (name == "COPY" and there[-1] == path)
        or (name == "RUN" and path in there and MAKING & set(there[: there.index(path)]))
        for name, there in words
    )


def test_the_build_gets_only_the_files_that_it_needs() -> None:
    copied = {
        source
        for name, arguments in instructions()
        if name == "COPY" and not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    }
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_copied_files_are_made_in_the_stage_they_come_from() -> None:
    earlier: dict[str, list[tuple[str, str]]] = {}
    taken = []
    for name, stage in stages().items():
        for argument in [arguments for each, arguments in stage if each == "COPY"]:
            if source := re.search(r"--from=(\S+)", argument):
                path = argument.split()[-2]
                assert is_made(path, earlier[source[1]]), f"{source[1]} makes no {path}"
                taken.append(path)
        earlier[name] = stage
    assert sorted(taken) == ["/opt/autoscaler", "/state", "/wheel"]


def test_the_bases_can_be_pinned() -> None:
    bases = {f"${{{arguments.partition('=')[0]}}}" for _, arguments in instructions()[:2]}
    images = [arguments for name, arguments in instructions() if name == "FROM"]
    assert bases == {"${BASE}", "${BUILDER}"}
    assert all(bases & set(image.split()) for image in images)
    assert images[0].startswith("--platform=${BUILDPLATFORM} ")
    assert not any(image.startswith("--platform") for image in images[1:])


def test_the_image_has_no_installer() -> None:
    """The base is distroless, and the environment is made without pip."""
    base = dict(argument.split("=") for name, argument in instructions()[:2] if name == "ARG")
    assert base["BASE"] == "gcr.io/distroless/python3-debian13:nonroot"
    (made,) = [
        arguments for _, arguments in stages()["environment"] if "-m venv /tools" in arguments
    ]
    assert made.endswith("-m venv --without-pip /opt/autoscaler")


def test_the_labels_describe_the_image() -> None:
    image = stages()[""]
    (labels,) = [arguments for name, arguments in image if name == "LABEL"]
    values = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', labels))
    given = {name.lower(): f"${{{name}}}" for kind, name in image if kind == "ARG"}
    assert given.keys() == {"version", "revision", "created", "source"}
    assert given.items() <= values.items()
    assert values.keys() - given == {"title", "description", "licenses"}


def test_the_state_folder_belongs_to_the_daemon() -> None:
    image = stages()[""]
    (copied,) = [
        arguments for name, arguments in image if arguments.endswith(" /var/lib/autoscaler")
    ]
    assert f"--chown={dict(image)['USER']} " in copied


def test_every_package_is_locked() -> None:
    assert ("ARG", "LOCK=requirements.lock") in stages()["environment"]
    installs = [arguments for _, arguments in instructions() if " pip " in arguments]
    assert len(installs) == 4
    for command in installs:
        locked = re.search(r"--require-hashes -r (requirements\S*\.lock|\${LOCK})", command)
        assert locked or "--no-deps" in command, command


def test_the_daemon_is_no_root_and_no_shell_starts_it() -> None:
    stage = dict(stages()[""])
    assert "RUN" not in stage
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", stage["USER"])
    assert json.loads(stage["ENTRYPOINT"]) == ["autoscaler"]
    assert json.loads(stage["CMD"]) == ["run", "-c", "/etc/autoscaler/autoscaler.yaml"]


def test_compiled_modules_can_be_imported() -> None:
    (command,) = [arguments for _, arguments in instructions() if '"-c", "import' in arguments]
    _, flag, statement = json.loads(command)
    subprocess.run([sys.executable, flag, statement], cwd=ROOT, check=True, timeout=60)
