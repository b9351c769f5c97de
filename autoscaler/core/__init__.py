"""The decision, a pure function; "semantics 4.1" is section 4.1 of docs/semantics.md.

It is made of a spec, an observation and a history.  Standard library only; the time is an
argument; nothing here logs, waits, reads or writes.
Start with `decide`.
"""
