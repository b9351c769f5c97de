"""The record in a SQLite file: written on a thread of its own, read by any number of readers.

A file that is lost or damaged costs history, never a decision.
"""

from autoscaler.persistence.record.file import SyncRow
from autoscaler.persistence.record.reader import DirectoryRecord
from autoscaler.persistence.record.writer import Limits, RecordWriter, Status, Times

__all__ = ["DirectoryRecord", "Limits", "RecordWriter", "Status", "SyncRow", "Times"]
