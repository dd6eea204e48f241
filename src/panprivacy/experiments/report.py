"""One page with everything: claims, figures, versions, seed."""

import platform
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING

from panprivacy.experiments.claims import Claim, Of, Verdict
from panprivacy.experiments.figures import Study
from panprivacy.experiments.figures.study import DATA, PICTURES

if TYPE_CHECKING:
    from panprivacy.experiments.reproduce import Reproduction

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.6rem; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; }
td.verdict { white-space: nowrap; font-weight: 600; }
.holds { color: #00694c; } .fails { color: #b03a00; } .open { color: #666; }
figure { margin: 2.5rem 0; } figure img { max-width: 100%; } figcaption { color: #444; font-size: 0.9rem; }
.note { color: #444; }
"""

_CLASSES = {
    Verdict.HOLDS: ("holds", "&#10003;"),
    Verdict.FAILS: ("fails", "&#10007;"),
    Verdict.OPEN: ("open", "?"),
}

_PACKAGES = ("panprivacy", "numpy", "numba", "polars", "scipy", "matplotlib")


def page(reproduction: "Reproduction", claims: Sequence[Claim]) -> str:
    """The whole page, pictures and all: it needs no other file."""
    figures = "\n".join(_figure(study, reproduction) for study in reproduction.studies)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>panprivacy: the paper's experiments, reproduced</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Improved Pan-Private Stream Density Estimation, reproduced</h1>
<p>Section 6 of the paper by Digalakis, Karystinos and Garofalakis, run again with its algorithms exactly as printed,
and three figures that it does not have. {_summary(claims)}</p>
<h2>Claims</h2>
<p class="note">Intervals are estimate (low to high). A claim is judged by intervals that all contain the truth but for
a probability of 1 in 10,000: it <b>holds</b> if they bear it out, it <b>does not hold</b> if they rule it out, and it
is <b>not decided</b> if there were too few repetitions to tell.</p>
{"".join(_claims(of, [claim for claim in claims if claim.of is of]) for of in Of)}
<h2>Figures</h2>
<p class="note">In figures with repetitions, all algorithms and budgets share the streams of a repetition (common random
numbers) and have coins of their own. Dashed lines with hollow markers: printed algorithms, which are not
private. Their data are in the folder <code>{DATA}</code>, as Parquet and CSV.</p>
{figures}
<h2>How it was made</h2>
{_origin(reproduction)}
</body>
</html>
"""


def _summary(claims: Sequence[Claim]) -> str:
    counting = [claim.verdict for claim in claims if claim.counts]
    parts = [f"{counting.count(verdict)} {verdict}" for verdict in Verdict]
    return f"Of {len(counting)} claims that the paper makes of its experiments: {', '.join(parts)}."


def _claims(of: Of, claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    rows = "\n".join(_row(claim) for claim in claims)
    heads = "".join(f"<th>{head}</th>" for head in ("claim", "where", "measured", "counts as true if", "verdict"))
    return f"<h3>{escape(of)}</h3>\n<table>\n<tr>{heads}</tr>\n{rows}\n</table>\n"


def _row(claim: Claim) -> str:
    cells = (claim.said, claim.where, claim.measured, claim.tolerance)
    style, sign = _CLASSES[claim.verdict]
    verdict = f'<td class="verdict {style}">{sign} {claim.verdict}</td>'
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}{verdict}</tr>"


def _figure(study: Study, reproduction: "Reproduction") -> str:
    picture = (reproduction.out / PICTURES / study.name).with_suffix(".svg").read_bytes()
    return (
        f'<figure id="{study.name}">\n<h3>{study.number}. {escape(study.title)}</h3>\n'
        f'<img alt="{escape(study.title)}" src="data:image/svg+xml;base64,{b64encode(picture).decode()}">\n'
        f"<figcaption>{escape(study.caption)}</figcaption>\n</figure>"
    )


def _origin(reproduction: "Reproduction") -> str:
    scale = reproduction.scale
    facts = {
        "command": f"panprivacy reproduce --seed {reproduction.seed}{' --quick' if scale.name == 'quick' else ''}",
        "seed": str(reproduction.seed),
        "repetitions": f"{scale.tail_repetitions:,} (figure 4), {scale.repetitions:,} (figures 5 to 8 and 10), "
        f"up to {scale.goal_repetitions:,} (PPDS and Density where figure 8 compares them)",
        "runs": f"{sum(cell.runs for cell in reproduction.cells):,}",
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    } | {package: version(package) for package in _PACKAGES}
    rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"
