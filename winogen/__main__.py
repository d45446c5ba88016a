"""`python -m winogen`: the command line, for a second checkout beside one that is installed."""

from winogen.cli import main

if __name__ == "__main__":
    main()
