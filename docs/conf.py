"""How Sphinx builds the site: `make docs`, or the command in CONTRIBUTING.md."""

import shutil
import sys
from pathlib import Path

import panprivacy

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
shutil.rmtree(HERE / "reference" / "api" / "generated", ignore_errors=True)  # names that are gone leave no page

project = "panprivacy"
author = "the panprivacy authors"
version = release = panprivacy.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_copybutton",
    "numpydoc",
    "generated",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [
    # Types in signatures that are no part of the public interface, or of other packages.
    ("py:.*", r"(?!panprivacy\.[A-Za-z_]+$).*"),
]

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4  # headings are linked as a code host links them
myst_links_external_new_tab = False

autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "literal"  # as docstrings are read: `name` is code
smartquotes = False  # --option is no dash, and quotes of errors are as they are printed
toc_object_entries_show_parents = "hide"  # update_many(), not Density.update_many()
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "panprivacy"
html_favicon = html_logo = "../src/panprivacy/serve/static/icon.svg"  # one icon for the page and the site
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_domain_indices = False
html_theme_options = {
    "logo": {"text": "panprivacy", "alt_text": "panprivacy: to the first page"},
    "show_prev_next": True,
    "navigation_depth": 2,  # toggles of deeper levels have no words for screen readers
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
copyright = "the panprivacy authors, Apache-2.0"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
