"""`python -m panprivacy` is the `panprivacy` command."""

from panprivacy.cli import main

if __name__ == "__main__":
    main()
