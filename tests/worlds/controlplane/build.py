"""`python -m tests.worlds.controlplane.build [NAME...]`: builds the control plane for the tests.

It prints the path of each binary; what it is about to build goes to standard error.
"""

import sys
from functools import partial

from tests.worlds.controlplane.binaries import PACKAGES, locate
from tests.worlds.gomodule import ControlPlaneUnavailable


def main(names: list[str]) -> int:
    """Locate or build the named binaries, or all of them, and print where they are."""
    unknown = [name for name in names if name not in PACKAGES]
    if unknown:
        print(f"no such binary: {', '.join(unknown)}", file=sys.stderr)
        return 2
    try:
        paths = locate(names or tuple(PACKAGES), report=partial(print, file=sys.stderr))
    except ControlPlaneUnavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    for path in paths.values():
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
