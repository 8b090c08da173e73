"""`python -m jaxmech`: the command line."""

from ._sofa.command_line import main

if __name__ == "__main__":
    raise SystemExit(main())
