"""The `panprivacy` command, which is also `python -m panprivacy`."""

import sys


def main() -> None:
    """Load the command, and run it; Ctrl-C while it loads ends it in one line, as it does later."""
    try:
        from panprivacy.cli import main as command
    except KeyboardInterrupt:
        sys.exit(_interrupted())
    command()


def _interrupted() -> int:
    """Say it, and give the status that a shell gives to a process that Ctrl-C ended."""
    print("panprivacy: interrupted", file=sys.stderr)
    return 130


if __name__ == "__main__":
    main()
