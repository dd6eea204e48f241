"""The page that the types of problems lead to."""

from html import escape

from panprivacy.serve.refusals import Why

_ROWS = "".join(
    f'<tr id="{sort.name}"><td><code>{sort.name}</code><td>{sort.status}<td>{escape(sort.title)}'
    for sort in (why.value for why in Why)
)
PAGE_OF_PROBLEMS = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Problems</title>'
    f"<h1>What this service refuses</h1><table><tr><th>type<th>status<th>meaning{_ROWS}</table>"
)
