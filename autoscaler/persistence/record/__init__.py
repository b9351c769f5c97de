"""The record in a SQLite file: one thread writes it, any number of readers read it.

A lost or damaged file costs history, never a decision.
"""

from autoscaler.persistence.record.file import SyncRow
from autoscaler.persistence.record.reader import DirectoryRecord
from autoscaler.persistence.record.writer import Limits, RecordWriter, Status, Times

__all__ = ["DirectoryRecord", "Limits", "RecordWriter", "Status", "SyncRow", "Times"]
