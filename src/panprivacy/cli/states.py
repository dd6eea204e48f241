"""`panprivacy show`, `release`, `merge` and `rerandomize`: what can be done with a state file."""

from contextlib import ExitStack
from itertools import combinations
from typing import Annotated, Any

import typer

from panprivacy.cli import options as opt
from panprivacy.cli.folders import KeptFolder, is_folder, refuse_folder
from panprivacy.cli.plainly import Speaker, as_fields, as_line, plain_errors
from panprivacy.cli.run import Run, kept_anywhere, kept_in, load_estimator
from panprivacy.density import Density
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.state import StateFile, merging

StatePath = Annotated[
    str,
    typer.Argument(
        metavar="STATE.pp",
        help="A state file or folder, which --state of density or distinct wrote.",
        show_default=False,
    ),
]


def show(state: StatePath, as_json: opt.Json = False) -> None:
    """Show what a state file counts, what it has spent, and its last release once more; this costs nothing.

    Example: [bold]panprivacy show flu.pp[/bold]
    """
    with plain_errors():
        kept = KeptFolder(state) if is_folder(state) else None
        est = StateFile(state).load() if kept is None else kept.seen()
        speaker = Speaker(as_json=as_json, quiet=True)
        behind = 0 if kept is None else kept.folder.shards_behind
        shards = {} if kept is None else {"shards": kept.folder.shards, "shards_behind": behind}
        speaker.answer(_described(est) | shards if as_json else kept.folder if kept else est)
        last = est.last if isinstance(est, Estimator) else None
        if last is not None and not as_json:
            speaker.answer(last)
        if behind:
            Speaker(as_json=as_json, quiet=False).note(
                f"{state}: a rerandomisation broke off, and {behind} of {shards['shards']} shards are as they were: "
                f"panprivacy rerandomize {state} finishes it"
            )


def _described(est: Any) -> dict[str, Any]:
    """What a state is and has spent; of a `Continual`, moves where others have releases."""
    budget = est.budget
    common = {
        "estimator": type(est).__name__,
        "universe": est.universe.describe(),
        "memory": est.memory,
        "secure": est.secure,
        "epsilon": est.epsilon,
        "epsilon_spent": budget.spent,
        "epsilon_remaining": budget.remaining,
        "delta": budget.delta,
        "delta_spent": budget.delta_spent,
    }
    if not isinstance(est, Estimator):
        return common | {"moves": budget.moves, "moves_left": est.moves_left}
    return common | {
        "releases": budget.releases,
        "releases_made": budget.releases_made,
        "noise_stderr": budget.noise_stderr,
        "intrusions": budget.redraws,
        "rerandomizations_made": budget.redraws_made,
        "last": as_fields(est.last) if est.last is not None else None,
    }


def release(
    state: StatePath,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
) -> None:
    """Make one of the planned releases of a state file, and print the answer.

    Example: [bold]panprivacy release flu.pp --level 0.99[/bold]

    A release spends privacy budget. That it is spent is on disk before the answer is printed.
    """
    with plain_errors(), kept_anywhere(state) as kept:
        assert kept is not None
        Run(load_estimator(kept), kept, level, Speaker(as_json=as_json, quiet=False)).release()


def rerandomize(state: StatePath) -> None:
    """Redraw the bits of a state file after somebody has read it, so that a second reading adds little to the first.

    Example: [bold]panprivacy rerandomize flu.pp[/bold]

    The state must have been made with --intrusions, which plans how often this can be done.
    """
    with plain_errors(), kept_anywhere(state) as kept:
        assert kept is not None
        est = load_estimator(kept)
        if isinstance(kept, KeptFolder):
            kept.folder.rerandomize()
        else:
            est.rerandomize()
            est.save(kept)
        budget = est.budget
        Speaker(as_json=False, quiet=False).note(
            f"{state}: every bit is redrawn; {budget.redraws - budget.redraws_made} more planned"
        )


def merge(
    states: Annotated[list[str], typer.Argument(metavar="STATE.pp", hidden=True)],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE.pp", help="File for the merged state; it must not be there yet."),
    ],
    overlapping: Annotated[
        bool,
        typer.Option(
            "--overlapping", help="For states of distinct: some users may have been counted in more than one of them."
        ),
    ] = False,
    keep_parts: Annotated[
        bool,
        typer.Option(
            "--keep-parts", help="Keep the files of the parts; without this they are overwritten and deleted."
        ),
    ] = False,
) -> None:
    """Join state files into one: the shards of a density, or states of distinct with one key.

    Example: [bold]panprivacy merge north.pp south.pp -o all.pp[/bold]

    Once the merged state is on disk, the files of its parts are overwritten and deleted, since an old
    copy of a state is one more reading of it.
    """
    with plain_errors(), kept_in(output) as kept, ExitStack() as locks:
        assert kept is not None
        if kept.exists:
            raise FileExistsError(None, "there is a file already; choose another name", output)
        if len(states) < 2:
            raise ValueError(f"{states[0]} alone is nothing to merge: name all of its parts")
        for state in states:
            refuse_folder(state)
        files = [StateFile(state) for state in states]
        for one, other in combinations(files, 2):
            if one.same_as(other):
                raise ValueError(f"{one.path} and {other.path} are one file: name each part once")
        for file in files:
            locks.enter_context(file.locked())
        parts: list[Any] = [file.load() for file in files]
        if len({getattr(part.universe, "key", None) for part in parts} - {None}) > 1:
            raise PanPrivacyError(
                f"{' and '.join(states)} have different keys: states of distinct can be merged if they were made with "
                "the same --key HEX, such as openssl rand -hex 16 prints"
            )
        merged = merging.merge(parts, overlapping=True) if overlapping else merging.merge(parts)
        if keep_parts:
            merged.save(kept)
        else:
            _take_over(merged, kept, files)  # before anything is said: what is said may find nobody who listens
        speaker = Speaker(as_json=False, quiet=False)
        speaker.note(f"{output}: {as_line(merged)}")
        if isinstance(merged, Density) and merged._slots.population < merged.universe.size:
            speaker.note(
                f"{output}: its {len(parts)} shards hold {merged.users:,} of {merged.universe.describe()}; the others "
                "are not counted until their shards are merged, too"
            )
        named = " and ".join(states)
        if keep_parts:
            speaker.note(
                f"{named} are kept: whoever reads them beside {output} reads their users twice; delete them soon"
            )
            return
        speaker.note(f"{named} are overwritten and deleted: {output} has taken over")


def _take_over(merged: Any, kept: StateFile, files: list[StateFile]) -> None:
    """Save a merge and erase its parts; after a crash in between, whoever opens a part erases it."""
    for file in files:
        file.leave_to(kept)
    try:
        merged.save(kept)
    except BaseException:
        if not kept.exists:
            for file in files:
                file.stay()
        raise
    for file in files:
        file.erase()
