"""The cells of a table that was drawn for a terminal: what it says, whatever a version of rich makes it look like."""

import re

_EDGE = re.compile("[┃│]")


def rows(text: str) -> list[list[str]]:
    """The rows of all tables in a text, header included; lines that continue a wrapped row are joined to it.

    >>> rows('''
    ... ┏━━━━━━━┳━━━━━━━━━━┓
    ... ┃ name  ┃ verdict  ┃
    ... ┡━━━━━━━╇━━━━━━━━━━┩
    ... │ Dwork │ fails as │
    ... │       │ printed  │
    ... └───────┴──────────┘''')
    [['name', 'verdict'], ['Dwork', 'fails as printed']]
    """
    found: list[list[str]] = []
    for line in text.splitlines():
        if len(cells := _EDGE.split(line.strip())) < 4 or cells[0] or cells[-1]:
            continue
        inside = [" ".join(cell.split()) for cell in cells[1:-1]]
        if found and not inside[0] and any(inside):
            found[-1] = [f"{above} {below}".strip() for above, below in zip(found[-1], inside, strict=True)]
        else:
            found.append(inside)
    return found
