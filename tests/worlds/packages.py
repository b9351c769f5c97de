"""The project's sdist and wheel, built offline, and environments that they are installed into."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(kind: str, folder: Path) -> Path:
    """Return the sdist or the wheel, built offline from the checkout."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder], check=True, cwd=ROOT
    )
    (file,) = folder.iterdir()
    return file


def borrow_libraries(venv: Path) -> None:
    """Show an environment the libraries of the tests, but not the daemon under test."""
    ours = Path(sysconfig.get_path("purelib"))
    theirs = venv / ours.relative_to(sys.prefix)
    (theirs / "libraries.pth").write_text(f"{ours}\n")


def offline(folder: Path) -> dict[str, str]:
    """Return variables with which pip takes the project from a folder, and no libraries."""
    return {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_FIND_LINKS": str(folder)}


def installed(package: Path, venv: Path) -> Path:
    """Install a package into a new environment; return the environment's folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    borrow_libraries(venv)
    pip = [f"{venv}/bin/pip", "install", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, str(package)], check=True, stdout=subprocess.DEVNULL)
    return venv / "bin"
