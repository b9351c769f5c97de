"""The record of decisions: what is kept of each, and how it is asked for.

`rows` is what a reader gives, `changes` is what is kept in full.  The file is that of
`autoscaler.adapters.record`.
"""
