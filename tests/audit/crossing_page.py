"""Write the table of docs/reference/crossings.md anew: ``python tests/audit/crossing_page.py``."""

from pathlib import Path

from panprivacy.audit import crossings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "crossings.md"
BEGIN, END = "<!-- crossings: begin -->", "<!-- crossings: end -->"


def written() -> str:
    """The page with a new table."""
    page = PAGE.read_text(encoding="utf-8")
    head, tail = page.split(BEGIN)[0], page.split(END)[1]
    return f"{head}{BEGIN}\n{crossings.markdown(list(crossings.fill(crossings.crossings())))}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
