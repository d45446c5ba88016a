"""Loop nests looked at: counted, run in Python, printed, searched for the fastest."""
