"""The `panprivacy` command, which is also `python -m panprivacy`."""

import sys


def main() -> None:
    """Load the command, and run it; Ctrl-C while it loads ends it in one line, as it does later."""
    try:
        from panprivacy.cli import main as command
    except KeyboardInterrupt:
        print("panprivacy: interrupted", file=sys.stderr)
        sys.exit(130)  # as shells say that Ctrl-C ended a process
    command()


if __name__ == "__main__":
    main()
