"""`panprivacy show`, `release`, `merge` and `rerandomize`: what can be done with a state file."""

from typing import Annotated, Any

import typer

from panprivacy import merging
from panprivacy.cli import options as opt
from panprivacy.cli.plainly import Speaker, as_fields, as_line, plain_errors
from panprivacy.cli.run import Run, kept_in, load_state
from panprivacy.density import Density
from panprivacy.estimator import Estimator
from panprivacy.statefile import StateFile

StatePath = Annotated[str, typer.Argument(metavar="STATE.pp", help="A file that --state wrote.", show_default=False)]


def show(state: StatePath, as_json: opt.Json = False) -> None:
    """Show what a state is, what it has spent, and its last release again. Costs nothing, changes nothing.

    Example: [bold]panprivacy show flu.pp[/bold]
    """
    with plain_errors():
        est = load_state(StateFile(state))
        speaker = Speaker(as_json=as_json, quiet=True)
        speaker.answer(_described(est) if as_json else est)
        if est.last is not None and not as_json:
            speaker.answer(est.last)


def _described(est: Estimator[Any]) -> dict[str, Any]:
    budget = est.budget
    return {
        "estimator": type(est).__name__,
        "universe": est.universe.describe(),
        "memory": est.memory,
        "secure": est.secure,
        "epsilon": budget.epsilon,
        "epsilon_spent": budget.spent,
        "epsilon_remaining": budget.remaining,
        "releases": len(budget.releases),
        "releases_made": budget.releases_made,
        "intrusions": len(budget.redraws),
        "rerandomizations_made": budget.redraws_made,
        "last": as_fields(est.last) if est.last is not None else None,
    }


def release(
    state: StatePath,
    level: opt.Level = 0.95,
    as_json: opt.Json = False,
) -> None:
    """Spend one planned release of a state. What was spent is on disk before the answer is shown.

    Example: [bold]panprivacy release flu.pp --level 0.99[/bold]
    """
    with plain_errors(), kept_in(state) as kept:
        assert kept is not None
        Run(load_state(kept), kept, level, Speaker(as_json=as_json, quiet=False)).release()


def rerandomize(state: StatePath) -> None:
    """Redraw every bit through randomised response, after the state has been read by others.

    Example: [bold]panprivacy rerandomize flu.pp[/bold], for a state that was made with --intrusions
    """
    with plain_errors(), kept_in(state) as kept:
        assert kept is not None
        est = load_state(kept)
        est.rerandomize()
        kept.write(est.to_bytes())
        budget = est.budget
        Speaker(as_json=False, quiet=False).note(
            f"{state}: every bit is redrawn; {len(budget.redraws) - budget.redraws_made} more planned"
        )


def merge(
    states: Annotated[list[str], typer.Argument(metavar="STATE.pp", hidden=True)],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE.pp", help="Where the merged state goes.")],
    overlapping: Annotated[
        bool, typer.Option("--overlapping", help="The states, of distinct, may have seen the same users.")
    ] = False,
) -> None:
    """Join states into one: shards of one universe, or counts of disjoint users.

    Example: [bold]panprivacy merge north.pp south.pp -o all.pp[/bold]

    Each state has a ledger of its own: from now on, release from the whole, and no more from its parts. What they
    remember is copied, so delete them.
    """
    with plain_errors(), kept_in(output) as kept:
        assert kept is not None
        if kept.exists:
            raise FileExistsError(None, "there is a file already; choose another name", output)
        if len(states) < 2:
            raise ValueError(f"{states[0]} alone is nothing to merge: name all of its parts")
        parts: list[Any] = [load_state(StateFile(state)) for state in states]
        merged = merging.merge(parts, overlapping=True) if overlapping else merging.merge(parts)
        kept.write(merged.to_bytes())
        speaker = Speaker(as_json=False, quiet=False)
        speaker.note(f"{output}: {as_line(merged)}")
        if isinstance(merged, Density) and merged._slots.population < merged.universe.size:
            speaker.note(
                f"{output}: its {len(parts)} shards hold {merged.users:,} of {merged.universe.describe()}; the others "
                "are not counted until their shards are merged, too"
            )
