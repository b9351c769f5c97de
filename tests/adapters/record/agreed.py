"""Made-up stretches of agreement, put into the record of a directory."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from autoscaler.config.comparison import FieldChange
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.agreement import Agreement, AgreementInterval
from autoscaler.persistence.record.file import open_file
from tests.core.builders import BASE

WEB = "shop/Deployment/web"
FIELD = FieldChange("maxReplicas", "20", "8")
EQUAL, WITHIN, DIFFERENT = Agreement.EQUAL, Agreement.WITHIN_PERIOD, Agreement.DIFFERENT
NOT_COMPARED = Agreement.NOT_COMPARED


def stretch(
    begin: float, seconds: float, kind: Agreement = EQUAL, *, why: str = "for a reason"
) -> AgreementInterval:
    """Return an interval that begins some seconds after BASE."""
    begin, end = BASE + begin, BASE + begin + seconds
    if kind is DIFFERENT:
        return AgreementInterval(begin, end, kind, 9, 8, (FIELD,))
    return AgreementInterval(begin, end, kind, why=why if kind is NOT_COMPARED else "")


def record_with(
    directory: Path, *rows: AgreementInterval | tuple[str, AgreementInterval], cluster: str = ""
) -> DirectoryRecord:
    """Write stretches, of `WEB` where no target is named, and return the record."""
    named: Iterable[tuple[str, AgreementInterval]] = (
        (WEB, row) if isinstance(row, AgreementInterval) else row for row in rows
    )
    with closing(open_file(directory, BASE, print, cluster=cluster)) as file:
        file.write_agreement(named)
    return DirectoryRecord(directory)
