"""`python -m bolide`: the command."""

from bolide.cli import main

if __name__ == "__main__":
    main()
