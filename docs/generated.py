"""What the site takes from the program itself: commands from their help, HTTP from OpenAPI, formulas as MathML.

It also completes the pages for search engines, screen readers and slow connections.
"""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from panprivacy.cli import COMMANDS, all_commands
from panprivacy.ingest.batch import ProblemType
from panprivacy.serve.http.openapi import description

# --- Commands -------------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command, in the panels and the words of its own help."""
    return "\n".join(
        line
        for panel, described in COMMANDS.items()
        for line in (f"## {panel}", *(_command(name) for name in described))
    )


def _command(name: str) -> str:
    program = all_commands(name)
    command = program[name]
    command.default_parameter = program.default_parameter  # by itself it would list options that it does not take
    written = command.generate_docs(output_format="markdown", recursive=False, heading_level=3)
    written = re.sub(r"\[/?(bold|dim|italic)\]", "`", written)
    written = re.sub(r"(`[^`]*`)|(--[a-z][a-z-]*)", lambda found: found[1] or f"`{found[2]}`", written)  # kept whole
    return written.replace(f"### {name}", f"(command-{name})=\n### `panprivacy {name}`", 1)


# --- HTTP -----------------------------------------------------------------------------------------------------------


def routes() -> str:
    """Every route of the service, its problems, and the shapes of its answers, as OpenAPI describes them."""
    told = description()
    lines = ["## Routes"]
    for path, described in told["paths"].items():
        for method in ("get", "post"):
            if method in described:
                lines += _route(f"{method.upper()} {path}", described[method])
    lines += _problems()
    lines += ["## Shapes"]
    for name, schema in told["components"]["schemas"].items():
        lines += _shape(name, schema)
    return "\n".join(lines)


def _route(title: str, told: dict[str, Any]) -> Iterator[str]:
    yield f"### `{title}`\n\n{told['summary']}\n"
    for parameter in told.get("parameters", ()):
        yield f"- `{parameter['name']}` ({parameter['in']}): {parameter['description']}"
    bodies = told.get("requestBody", {}).get("content", {})
    if bodies:
        yield "\nBody: " + ", ".join(f"`{kind}`" for kind in bodies)
    yield "\n| status | answer |\n|---|---|"
    refused = []
    for status, answer in told["responses"].items():
        shapes = {_type(content["schema"]) for content in answer.get("content", {}).values()}
        if shapes == {_PROBLEM}:
            refused.append(status)
        else:
            yield f"| {status} | {answer['description']}{''.join(f' ({shape})' for shape in sorted(shapes))} |"
    if refused:
        yield f"\nRefused with a [problem](#problems): {', '.join(refused)}.\n"
    for content in told["responses"].get("200", {}).get("content", {}).values():
        if "example" in content:
            example = json.dumps(content["example"], indent=2)
            yield f"\n:::{{dropdown}} Example of an answer\n```json\n{example}\n```\n:::\n"


_PROBLEM = "[Problem](#shape-problem)"


def _problems() -> Iterator[str]:
    """Every type of problem, by its status."""
    yield "\n## Problems\n"
    yield f"A request that is not served is answered with a {_PROBLEM}, whose `type` ends with one of these names.\n"
    yield "| status | type | meaning |\n|---:|---|---|"
    for problem in sorted(ProblemType, key=lambda problem: problem.status):
        yield f"| {problem.status} | `{problem.slug}` | {problem.title} |"
    yield "\nFrom 500 on, and after 408 and 429, send the same request again later.\n"


def _shape(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"(shape-{name.lower()})=\n### {name}\n\n{schema.get('description', '')}\n"
    if schema.get("properties"):
        noted = any("description" in told for told in schema["properties"].values())
        yield "| field | type | note |\n|---|---|---|" if noted else "| field | type |\n|---|---|"
        for field, told in schema["properties"].items():
            yield f"| `{field}` | {_type(told)} |" + (f" {told.get('description', '')} |" if noted else "")
        yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#shape-{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


# --- Sphinx ---------------------------------------------------------------------------------------------------------


class Generated(SphinxDirective):
    """Puts `commands` or `routes` where a page names it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        text = {"commands": commands, "routes": routes}[self.arguments[0]]()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _inline(self: Any, node: nodes.Element) -> None:
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _display(self: Any, node: nodes.Element) -> None:
    self.body.append('<div class="formula" tabindex="0" role="group" aria-label="formula">')
    self.body.append(convert(node.astext(), display="block"))
    self.body.append("</div>")
    raise nodes.SkipNode


LONG = 88
"""Characters of a line that fit between the menus of a small desktop."""


def fit_to_screens(_app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """Long lines of commands wrap, but programs and drawn tables scroll; long words in a sentence may break.

    The empty line that ends a doctest in Markdown is left out. Where a line is long, comments stand behind the code
    instead of below one another.
    """
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource == block.astext():
            text = block.astext().rstrip("\n")
            if max(map(len, text.split("\n"))) > LONG:
                text = re.sub(r"(?<=\S) {3,}(?=# )", "  ", text)
            block.rawsource, block.children = text, [nodes.Text(text)]
        if "<<'" in block.astext():
            block["classes"].append("program")
        if re.search(r"[│┃]", block.astext()):
            block["classes"].append("drawn")
    for name in doctree.findall(nodes.literal):
        if max(map(len, name.astext().split()), default=0) > 28:
            name["classes"].append("breakable")


MANY, MOST = 7, 9
"""Columns of a table that has small letters, or smaller ones."""
NUMBER = re.compile(r"(\d(?:[\d.]*\d)?e-\d+)")


def fit_tables(_app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """Tables with many columns have small letters; no number breaks at its hyphen."""
    for table in doctree.findall(nodes.table):
        columns = len(list(table.findall(nodes.colspec)))
        table["classes"] += ["many-columns"] * (columns >= MANY) + ["most-columns"] * (columns >= MOST)
        for text in list(table.findall(nodes.Text)):
            if NUMBER.search(text) and not isinstance(text.parent, nodes.literal):
                parts = [
                    nodes.inline("", part, classes=["whole"]) if NUMBER.fullmatch(part) else nodes.Text(part)
                    for part in NUMBER.split(text)
                ]
                text.parent.replace(text, parts)


def name_empty_heads(_app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """A head of a table without a word is one for screen readers."""
    for head in doctree.findall(nodes.thead):
        for place, entry in enumerate(head.findall(nodes.entry)):
            if not entry.astext():
                word = "item" if place == 0 else "note"
                entry.append(nodes.paragraph("", "", nodes.inline("", word, classes=["visually-hidden"])))


# --- What every page has --------------------------------------------------------------------------------------------


def complete_page(
    _app: Sphinx, page: str, _template: str, context: dict[str, Any], tree: nodes.document | None
) -> None:
    """Give a page its description, its images their size, and the toggles of its menu a name."""
    told = (
        _description(tree) or f"{page}: a page of the documentation of panprivacy, private counts of people in streams."
    )
    context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{html.escape(told)}" />'
    if "body" in context:
        body = re.sub(r'<img (?=[^>]*_images/([^/"]+\.png)")', _sized, context["body"])
        body = re.sub(
            r'<img [^>]*src="([^"]*_images/[^"]+\.png)"[^>]*>', r'<a class="picture" href="\1">\g<0></a>', body
        )
        context["body"] = WRAPPED.sub(_in_lines, body)
    menu = context.get("generate_toctree_html")
    if menu is not None:
        context["generate_toctree_html"] = lambda *given, **named: str(menu(*given, **named)).replace(
            "<summary>", '<summary aria-label="pages of this part">'
        )


WRAPPED = re.compile(
    r'(<div class="highlight-(?:sh|console) notranslate"><div class="highlight"><pre>)(.*?)(?=</pre>)', re.DOTALL
)


def _in_lines(found: re.Match[str]) -> str:
    """What a shell is told and prints, line by line: a second row is indented, options stay whole."""
    lines = re.sub(r"(?<=[ >])--[a-z-]+", r'<span class="option">\g<0></span>', found[2].removesuffix("\n")).split("\n")
    return found[1] + "".join(f'<span class="line">{line}\n</span>' for line in lines)


def _description(tree: nodes.document | None, most: int = 160) -> str:
    """The first paragraph of a page, cut at a word."""
    paragraphs = tree.findall(nodes.paragraph) if tree is not None else ()
    text = " ".join(next((each.astext() for each in paragraphs if len(each.astext()) > 20), "").split())
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " ..."


def _sized(found: re.Match[str]) -> str:
    """The tag with the pixels of a PNG file, whose header has them: the text below does not jump when it is loaded."""
    head = (Path(__file__).parent / "img" / found[1]).read_bytes()[:24]
    width, height = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    return f'{found[0]}width="{width}" height="{height}" '


INNER = re.compile(
    "agree_with|asked|bind_to|check_.*|cells|columns|declare_ids|emptied|empty_shard|each_share|end|header|held"
    "|from_sealed|from_state_with_table|interval_name|lines|main|main_name|needs_names|of_shares?|receive"
    "|redraw_slots|sealed_state|shards_behind|singles|with_traceback|add_note"
    "|as_column|describe|grown|index|indices|inside|listed|lookalike|places|respelled|spellings|unchecked"
    "|keeps|leave_to|mend|same_as|stay|read|write|why_missing|divided"
)
"""Methods without an underscore that other rooms of the package call, and users do not."""


def skip_inner(_app: Sphinx, _what: str, name: str, found: Any, *_: Any) -> bool | None:
    """Constants of classes, what only the package calls, and verbs of tuples are no part of the reference."""
    of_tuples = getattr(found, "__qualname__", "").startswith("tuple.")
    return True if of_tuples or INNER.fullmatch(name) or name.isupper() else None


TOLD = {
    "panprivacy.Ids": "Many users at once, as `update_many` takes them: a list, a set or a range of ids, an array, "
    "a column of pandas, Polars or Arrow, a frame with `column=`, a lazy frame, an Arrow reader, a DuckDB relation, or "
    "any iterator of ids.",
    "panprivacy.audit.READ": "In a stream of `sampled`: here the state is read.",
    "panprivacy.audit.REDRAW": "In a stream of `sampled`: here the state is redrawn, after an announced reading.",
    "panprivacy.audit.RELEASE": "In a stream of `sampled`: here a release is made.",
}
"""What values are for: Python shows the docstring of their type."""

OF_A_NUMBER = re.compile(r"panprivacy\.\w*Release\.(?!noise_)(?:(raw)_)?(\w+?)(?:_(stderr|interval))?")
ABOUT = {
    "raw": "`{}` as it was released, before it was brought into its range.",
    "stderr": "The standard error of `{}`.",
    "interval": "The confidence interval of `{}`: its two ends.",
}


def tell_values(_app: Sphinx, _what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Give values a docstring; errors and intervals of a number have that of the number, and fields of tuples none."""
    about = OF_A_NUMBER.fullmatch(name)
    if name in TOLD:
        lines[:] = [TOLD[name], ""]
    elif about and (about[1] or about[3]):
        lines[:] = [ABOUT[about[3] or about[1]].format(about[2]), ""]
    elif lines and lines[0].startswith("Alias for field number"):
        lines.clear()


ARRAYS = re.compile(r"[\w.~]*Buffer \| .*?_NestedSequence\[(?:bool \| int \| float \| )?complex \| bytes \| str\]")
"""How Sphinx writes NumPy's `ArrayLike`."""


def shorten_signature(
    _app: Sphinx, _what: str, _name: str, _found: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Write `ArrayLike` instead of all that it stands for."""
    return (ARRAYS.sub("ArrayLike", signature) if signature else signature), returned


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("generated", Generated)
    app.connect("doctree-resolved", name_empty_heads)
    app.connect("doctree-resolved", fit_to_screens)
    app.connect("doctree-resolved", fit_tables)
    app.connect("autodoc-skip-member", skip_inner)
    app.connect("autodoc-process-docstring", tell_values, priority=900)  # after numpydoc
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("html-page-context", complete_page, priority=900)  # after the theme
    # No script from elsewhere: browsers draw MathML themselves.
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
