"""The code that commands share, and the commands that query a daemon or control it."""
