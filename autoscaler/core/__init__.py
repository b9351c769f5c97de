"""The scaling decision as a pure function: spec, observation, history and time -> decision.

Standard library only: nothing here reads a clock, logs, waits, or reads or writes a file.
"semantics 4.1" in a docstring is section 4.1 of docs/reference/semantics.md.  Start with `decide`.
"""
