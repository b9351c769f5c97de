"""`python -m tests.conformance FILE...`: plays recorded scenarios; exits 1 on any mismatch."""

import sys
from pathlib import Path

from tests.conformance.player import play_file

SHOWN = 10


def main(arguments: list[str]) -> int:
    """Play the files and print scenarios, ticks and mismatches (the first ten in full)."""
    if not arguments:
        print("usage: python -m tests.conformance FILE...", file=sys.stderr)
        return 2
    failed = False
    for argument in arguments:
        try:
            score = play_file(Path(argument))
        except (OSError, ValueError, KeyError, EOFError) as error:
            print(f"{argument}: not a file of scenarios: {error}", file=sys.stderr)
            return 2
        print(
            f"{argument}: {score.scenarios} scenarios, {score.ticks} ticks, "
            f"{len(score.mismatches)} mismatches"
        )
        for mismatch in score.mismatches[:SHOWN]:
            print(mismatch)
        failed = failed or bool(score.mismatches)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
