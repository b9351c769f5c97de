"""What the clients of both servers share: time limits, redaction, and bounds on what is received.

The servers, and whatever is in between, are not trusted to end an answer, to keep it small, or to
leave our credentials out of it.
"""
