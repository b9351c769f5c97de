"""Programs built with Go from a module that pins them, into a cache outside the repository.

A program is built once for each content of the module's files, Go version, platform and set of
build flags.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class ControlPlaneUnavailable(Exception):  # noqa: N818 - states what the environment lacks
    """This environment lacks a program and cannot build it; the message says why."""


@dataclass(frozen=True)
class GoModule:
    """The module in `folder`; `packages` maps the names of its programs to their Go packages.

    The version of `pinned`, which go.mod requires, names the cache folder and is announced with
    the `title`. The packages in `stamped` get that version at link time.
    """

    folder: Path
    title: str
    pinned: str
    packages: Mapping[str, str]
    stamped: Sequence[str] = ()

    def version(self) -> str:
        """Return the version that go.mod pins, for example v1.37.2."""
        text = (self.folder / "go.mod").read_text()
        line = re.search(rf"^\s*(?:require )?{re.escape(self.pinned)} (v\S+)", text, re.MULTILINE)
        if line is None:
            raise ControlPlaneUnavailable(f"go.mod requires no {self.pinned}")
        return line[1]

    def source(self) -> Path:
        """Return the folder of the pinned module's source, after downloading it if need be."""
        return Path(json.loads(self._go("mod", "download", "-json", self.pinned))["Dir"])

    def cached(self) -> bool:
        """Whether every program is built already."""
        if shutil.which("go") is None:
            return False
        folder = self._cache()
        return all((folder / name).is_file() for name in self.packages)

    def built(
        self, names: Sequence[str], report: Callable[[str], None] | None = None
    ) -> dict[str, Path]:
        """Return the named programs from the cache, after building the ones it lacks."""
        folder = self._cache()
        paths = {name: folder / name for name in names}
        if not all(path.is_file() for path in paths.values()):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ".lock").open("w") as lock:
                # A second test process waits for the build of the first.
                fcntl.flock(lock, fcntl.LOCK_EX)
                for name in (name for name, path in paths.items() if not path.is_file()):
                    if report:
                        report(f"building {name} for {self.title} {self.version()}, once")
                    self._compile(name, paths[name])
        return paths

    def _compile(self, name: str, target: Path) -> None:
        """Build one program; `target` appears complete or not at all."""
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
            output = Path(folder) / name
            # More parallel compilers of this source need more memory than they save time.
            parallel = str(min(4, os.cpu_count() or 1))
            package = self.packages[name]
            self._go("build", "-p", parallel, *self._flags(), "-o", str(output), package)
            output.rename(target)

    def _flags(self) -> list[str]:
        """Return the flags that decide what the programs contain."""
        version = self.version()
        major, minor, _ = version.removeprefix("v").split(".", 2)
        stamp = {
            "gitVersion": version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        links = ["-s", "-w"]
        for package in self.stamped:
            links += [f"-X {package}.{key}={value}" for key, value in stamp.items()]
        return ["-mod=readonly", "-buildvcs=false", "-trimpath", f"-ldflags={' '.join(links)}"]

    def _cache(self) -> Path:
        """Return the cache folder, named by a hash of everything the programs depend on."""
        digest = hashlib.sha256()
        for part in (
            (self.folder / "go.mod").read_bytes(),
            (self.folder / "go.sum").read_bytes(),
            self._go("env", "GOVERSION", "GOOS", "GOARCH").encode(),
            " ".join(self._flags()).encode(),
            *(path.read_bytes() for path in sorted(self.folder.rglob("*.go"))),
        ):
            digest.update(hashlib.sha256(part).digest())
        return _cache_root() / f"{self.version()}-{digest.hexdigest()[:16]}"

    def _go(self, *arguments: str) -> str:
        """Run Go in the module, apart from any workspace or flags of the surrounding shell."""
        go = shutil.which("go")
        if go is None:
            raise ControlPlaneUnavailable(
                f"{self.title} must be built, and there is no Go on the PATH"
            )
        argv = [go, *arguments]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
        done = subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            tail = "\n".join(done.stderr.splitlines()[-15:])
            raise ControlPlaneUnavailable(f"`go {argv[1]}` exited with {done.returncode}:\n{tail}")
        return done.stdout


def _cache_root() -> Path:
    """Return the folder of all builds, outside the repository."""
    chosen = os.environ.get("AUTOSCALER_TEST_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autoscaler-tests"
