"""`python -m tests.adapters.agreement.filling DIRECTORY`: compares while a disk is full.

Prints nothing, and raises where something is not as it should be.
"""

import sys
from pathlib import Path

from autoscaler.agreement.comparison import Agreement
from autoscaler.agreement.database import DirectoryAgreement
from tests.adapters.agreement.keeping import WEB, keeping, row
from tests.adapters.store.filling import full
from tests.adapters.store.opening import Sayings


def main(directory: Path) -> None:
    """Keep rows before it is full, meanwhile, and afterwards."""
    heard = Sayings()
    with keeping(directory, heard) as writer:
        writer.put(row(0, 10))
        heard.wait(ok=True)
        with full(directory) as words:
            for number in range(3000):
                writer.put(row(10 * number, 10, Agreement.CONFIGURATION, target=f"t{number}"))
            sentence = heard.wait(ok=False)
            assert words in sentence, sentence
            assert "is not kept until it can be" in sentence
        while heard.states[-1] is False:
            writer.put(row(10, 10))
    (kept,) = DirectoryAgreement(directory).of([WEB], 0, 9).values()
    assert kept.sums[Agreement.EQUAL].seconds >= 20


if __name__ == "__main__":
    main(Path(sys.argv[1]))
