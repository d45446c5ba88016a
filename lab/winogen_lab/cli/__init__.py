"""The laboratory's commands: thin functions that read options, call it and print."""
