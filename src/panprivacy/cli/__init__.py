"""The `panprivacy` command."""

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc
from io import TextIOWrapper
from typing import Any, Literal

from cyclopts import App, CycloptsError, Group, Parameter

from panprivacy import __version__
from panprivacy.checks import LargeDelta
from panprivacy.cli.options import DASH, OPTIONS
from panprivacy.cli.output import Ended, cause_of
from panprivacy.errors import PanPrivacyError
from panprivacy.ingest.files import STDIN
from panprivacy.memory import hardening

COMMANDS = {
    "Count events": {
        "density": ("count", "FILE...", "Estimate what share of known users appears in the events."),
        "distinct": ("count", "FILE...", "Estimate how many different users appear in the events."),
        "counts": ("count", "FILE...", "Estimate how often users appear in the events."),
        "actives": ("count", "FILE...", "Estimate every day how many users were active in the last 1, 2, ... days."),
        "retention": ("count", "FILE...", "Estimate how many users of a first period came back in a second one."),
        "consume": ("consume", "ADDRESS", "Count the messages of a broker."),
    },
    "Use a saved state": {
        "show": ("states", "STATE.pp", "Show what a state counts, what it has spent, and its last release."),
        "release": ("states", "STATE.pp", "Make one of the planned releases of a state, and print the answer."),
        "merge": ("states", "STATE.pp...", "Join state files into one."),
        "grow": ("states", "STATE.pp", "Add users to the universe of a state."),
        "rerandomize": ("states", "STATE.pp", "Redraw the bits of a state after an announced reading."),
        "replace-shard": ("states", "FOLDER/ NUMBER", "Replace a lost or corrupt shard of a state folder."),
    },
    "Run a service": {
        "serve": ("serve", "[FILE.toml]", "Serve counters over HTTP, with a page that shows their releases."),
        "token": ("serve", "", "Make a token for a user of the service."),
    },
    "Plan, check and try": {
        "advise": ("planning", "[QUESTION]", "Say which estimator answers a question, at which epsilon."),
        "plan": ("planning", "", "Say which estimator to build, how large, and how much it will err."),
        "audit": ("audit", "[ESTIMATOR]", "Check the privacy of estimators."),
        "demo": ("trying", "", "Count simulated clinic visits, and compare the answer with the truth."),
        "compile": ("trying", "", "Compile the kernels in advance."),
        "bench": ("trying", "", "Time panprivacy beside sketches that are not private."),
        "reproduce": ("trying", "", "Run the experiments of the paper again, and draw its figures."),
    },
}
"""The panels of `panprivacy --help`: the file of each command, its arguments, and the line that says what it does.

The file is imported when the command is called."""


def all_commands(called: str | None = None) -> App:
    """All commands. The called one shows its whole help, the others the line above."""
    made = App(
        name="panprivacy",
        help="Count how many users appear in a stream of events, with a memory that never holds who they are.\n\n"
        "Example: [bold]panprivacy distinct visits.csv --column patient --epsilon 1[/bold]",
        help_format="rich",
        help_flags=["--help"],
        version=f"panprivacy {__version__}",
        version_format="plaintext",
        group_commands=Group("Options", sort_key=9),
        group_parameters=OPTIONS,
        group_arguments="Arguments",
        default_parameter=Parameter(
            negative=(),
            allow_repeating=True,
            show_default=lambda default: None if default in (None, False) else default,  # flags have none
        ),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for place, (panel, described) in enumerate(COMMANDS.items()):
        group = Group(panel, sort_key=place)
        for order, (name, (module, arguments, line)) in enumerate(described.items()):
            path, function = f"panprivacy.cli.commands.{module}", name.replace("-", "_")
            shown: Any = {
                "name": name,
                "group": group,
                "sort_key": order,
                "usage": f"Usage: panprivacy {name} [OPTIONS] {arguments}".rstrip(),
            }
            if name == called:
                command = getattr(import_module(path), function)
                paragraphs = cleandoc(command.__doc__).split("\n\n")  # which a terminal breaks where it ends
                made.command(command, **shown, help="\n\n".join(" ".join(each.split()) for each in paragraphs))
            else:
                made.command(f"{path}:{function}", **shown, help=line)
    made.register_install_completion_command(help="Install completion of commands and options for this shell.")
    made.command(_show_completion, name="--show-completion", help="Print the completion script.")
    made["--help"].help, made["--version"].help = "Show this help, or the help of a command.", "Show the version."
    return made


def _show_completion(shell: Literal["bash", "zsh", "fish", "powershell"] = "bash", /) -> None:
    print(all_commands().generate_completion(shell=shell))


def app(words: Sequence[str] | None = None) -> None:
    """Run a command, or show help; what a user can mend is one line on standard error and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ? instead
    status = 2
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LargeDelta)  # commands say it in a note of theirs
            given = list(sys.argv[1:] if words is None else words)
            all_commands(given[0] if given else None)([DASH if word == STDIN else word for word in given])
            return
    except BrokenPipeError:  # the reader of the answers has gone; the rest of the buffer would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except CycloptsError as error:
        error.verbose = False
        why, name = str(error), "Unknown option: --error."
        if why.startswith(name):  # people look for it in other commands, where no option has a similar name
            why = f"{name} panprivacy plan --alpha A says what an error of A takes; distinct alone has --error"
    except (PanPrivacyError, ValueError, OSError) as error:
        why = cause_of(error)
    except KeyboardInterrupt as interrupt:
        number: int = interrupt.args[0] if isinstance(interrupt, Ended) else signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        why, status = f"{how}; a state file is as it was last saved", 128 + number
    print(f"panprivacy: {' '.join(why.split())}", file=sys.stderr)
    raise SystemExit(status)


def main() -> None:
    """The program itself, which may start itself anew; other programs call `app`."""
    hardening.started_as_program()
    app()
