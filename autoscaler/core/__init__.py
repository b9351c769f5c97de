"""The decision: a pure function of a spec, an observation and a history.

Standard library only; the time is an argument; nothing here logs, waits, reads or writes.
Start with `decide`.
"""
