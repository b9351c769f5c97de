"""What every HTTP client of the program shares: limits, retries, redaction and error classes.

Neither a server nor what stands between is trusted to end its answer, to keep it small, or to leave
our credentials out of it.
"""
