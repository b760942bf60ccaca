"""`python -m regulus` is the command line."""

from regulus.cli.main import main

if __name__ == "__main__":
    main()
