"""The command line for environments without ``penstock`` on the path: ``python -m penstock``."""

from penstock.cli.main import main

if __name__ == "__main__":
    main(prog_name="python -m penstock")
