"""`panprivacy demo`: a simulated stream of clinic visits, seen to the end."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from panprivacy.errors import InvalidValue

if TYPE_CHECKING:
    from rich.table import Table

    from panprivacy.estimates import Release

_PATIENTS = 1_000_000
_BATCH = 100_000


def demo(
    *,
    epsilon: Annotated[float, Parameter(help="Privacy budget in all; 1 is usual, less is safer.")] = 1.0,
    visits: Annotated[int, Parameter(help="How many visits to simulate.")] = 5_000_000,
    memory: Annotated[str, Parameter(help="The most memory that the state may take.")] = "64 KiB",
) -> None:
    """Count simulated clinic visits, and compare the answer with the truth.

    Example: [bold]panprivacy demo --epsilon 0.5 --memory "16 KiB"[/bold]
    """
    import numpy as np
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from panprivacy.estimators.density import Density

    console = Console()
    if visits < 0:
        raise InvalidValue(f"visits must not be negative, got {visits}", code="visits-range")
    est = Density(universe=_PATIENTS, epsilon=epsilon, memory=memory)
    # The visits are simulated and need no secrecy; the estimator's own coins come from the operating system.
    generator = np.random.default_rng()
    seen = np.zeros(_PATIENTS, dtype=np.bool_)  # the truth, which only a demo may keep
    console.print(f"{_PATIENTS:,} patients could visit; {est.users:,} of them own one bit each.")
    columns = (TextColumn("visits"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("visits", total=visits)
        for start in range(0, visits, _BATCH):
            # A few patients come often and many never: a high power of a uniform number crowds at zero.
            patients = (generator.random(min(_BATCH, visits - start)) ** 6 * _PATIENTS).astype(np.int64)
            est.update_many(patients)
            seen[patients] = True
            progress.advance(task, len(patients))
    release = est.release()
    console.print(_compared(release, int(seen.sum())))
    console.print(
        f"An intruder who reads the {est.memory:,} bytes of state at any one moment, and this release, learns at most "
        f"epsilon = {release.epsilon_spent:.3g} about any one patient."
    )


def _compared(release: "Release", truth: int) -> "Table":
    """The release beside the truth."""
    from rich.table import Table

    share, count = (release.density, release.density_stderr), (release.count, release.count_stderr)
    table = Table("", "share who came", "patients")
    table.add_row(
        "private estimate ± standard error", "{:.4f} ± {:.4f}".format(*share), "{:,.0f} ± {:,.0f}".format(*count)
    )
    table.add_row(
        f"{release.level:.0%} interval",
        "{:.4f} to {:.4f}".format(*release.density_interval),
        "{:,.0f} to {:,.0f}".format(*release.count_interval),
    )
    table.add_row("truth, which only the demo knows", f"{truth / _PATIENTS:.4f}", f"{truth:,}")
    return table
