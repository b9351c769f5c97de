"""The scaling decision as a pure function: spec, observation, history and time -> decision.

Standard library only: no module reads the clock, logs, waits, or reads or writes files. "semantics
4.1" in a docstring is section 4.1 of docs/reference/semantics.md. Start with `decide`.
"""
