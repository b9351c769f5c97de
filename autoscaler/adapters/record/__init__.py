"""The record in a SQLite file: written on a thread of its own, read by any number of readers.

A file that is lost or damaged costs history, never a decision.
"""

from autoscaler.adapters.record.file import SyncRow
from autoscaler.adapters.record.reader import DirectoryRecord
from autoscaler.adapters.record.writer import Limits, RecordWriter, Status, Times

__all__ = ["DirectoryRecord", "Limits", "RecordWriter", "Status", "SyncRow", "Times"]
