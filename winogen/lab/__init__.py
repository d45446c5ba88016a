"""The laboratory: it measures, proves, draws and explains, and computes nothing for users.

Only the command line imports it, and only for the commands that need it. Its pictures need
matplotlib, which ``pip install 'winogen[lab]'`` installs.
"""
