"""Rows of made-up targets, and what writes them."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from autoscaler.agreement.comparison import Agreement, Stretch
from autoscaler.agreement.database import AgreementRow, AgreementWriter
from autoscaler.agreement.spec_differences import FieldDifference
from tests.core.builders import BASE

WEB = "shop/Deployment/web"
FIELD = FieldDifference("maxReplicas", "20", "8")


def row(
    begin: float,
    seconds: float,
    kind: Agreement = Agreement.EQUAL,
    *,
    target: str = WEB,
    before: float = 0.0,
    replicas: int = 3,
    free: int = 3,
) -> AgreementRow:
    """Return a row of a stretch that began ``before`` seconds earlier; from ``begin`` after BASE.

    The stretch has lasted for both together.
    """
    fields = (FIELD,) if kind is Agreement.CONFIGURATION else ()
    stretch = Stretch(BASE + begin - before, BASE + begin + seconds, kind, 9, 8, fields)
    return AgreementRow(target, stretch, seconds, not before, replicas, free)


@contextmanager
def keeping(
    directory: Path, on_state: Callable[[bool, str], None] = lambda *_: None, max_age: float = 1e10
) -> Iterator[AgreementWriter]:
    """Give a writer that writes at once, and tries again at once; at the end all is written."""
    writer = AgreementWriter(directory, on_state, max_age, batch_seconds=0.01, pause_seconds=0.05)
    with closing(writer):
        writer.start()
        yield writer
