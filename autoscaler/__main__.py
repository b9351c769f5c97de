"""`python -m autoscaler`."""

from autoscaler.app import main

main()
