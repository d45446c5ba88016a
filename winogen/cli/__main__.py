"""`python -m winogen.cli`, the same as `python -m winogen`."""

from winogen.cli import main

if __name__ == "__main__":
    main()
