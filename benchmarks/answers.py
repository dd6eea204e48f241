"""Every answer beside "how many ever": its error beside that of its design, its intervals, its loss beside its claim.

    python benchmarks/answers.py                 # all rows; some minutes
    python benchmarks/answers.py --runs 100      # fewer runs of each

Counts, actives, retention, groups and categories. A measured error may differ from its formula by a tenth, 95 %
intervals may hold 93 to 97 % of the time, and the exact loss is the one that is claimed, to six digits.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

import answers_counts
import answers_groups
import answers_periods
from panprivacy.audit.subjects import SUBJECTS, Case
from panprivacy.estimators.actives import ActiveUsers
from panprivacy.estimators.counts import Counts
from panprivacy.estimators.retention import Retention

TENTH, HELD, SIX_DIGITS = 0.10, (0.93, 0.97), 1e-6


def rows(runs: int | None) -> Iterator[Any]:
    """The rows of all answers: what, designed and measured error, and coverage."""
    told = {} if runs is None else {"runs": runs}
    yield from answers_counts.rows(**told)
    yield from answers_periods.rows()
    yield from answers_groups.rows(**told)


def audits() -> Iterator[tuple[str, float, float]]:
    """What each answer claims to lose, reading included, and what it exactly loses, where both are to be the same."""
    kinds = (Counts, ActiveUsers, Retention)
    for subject in SUBJECTS:
        divided = subject.name.endswith(("groups", "categories"))
        if subject.tight and (subject.kind in kinds or divided):
            result = subject.audit(Case())
            yield subject.name, result.claimed, result.worst_loss


def main() -> None:
    """Print the rows and the audits; fail if one is off."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int)
    table, off = Table("answer", "designed", "measured", "95 % intervals hold", "within limits"), 0
    for what, designed, measured, coverage in track(
        rows(options.parse_args().runs), "measuring", console=Console(stderr=True)
    ):
        within = abs(measured / designed - 1) <= TENTH and HELD[0] <= coverage <= HELD[1]
        off += not within
        table.add_row(what, f"{designed:.5f}", f"{measured:.5f}", f"{coverage:.1%}", "yes" if within else "NO")
    Console(width=120).print(table)
    losses = Table("answer", "claimed loss", "exact loss", "the same")
    for what, claimed, exact in track(audits(), "auditing", console=Console(stderr=True)):
        same = abs(exact - claimed) <= SIX_DIGITS
        off += not same
        losses.add_row(what, f"{claimed:.6f}", f"{exact:.6f}", "yes" if same else "NO")
    Console().print(losses)
    sys.exit(off > 0)


if __name__ == "__main__":
    main()
