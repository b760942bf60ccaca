"""`python -m regulus` is the command line."""

from regulus.cli.entry import main

if __name__ == "__main__":
    main()
