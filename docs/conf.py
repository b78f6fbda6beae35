"""Settings of Sphinx. No warning is suppressed: `make docs` fails on each."""

import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import smalti

project = "smalti"
author = "the smalti authors"
version = release = smalti.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = False
napoleon_use_rtype = False
html_theme = "furo"
html_title = f"smalti {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]


def setup(app: Any) -> None:
    """Fences of ours that the tests read, and that are plain text to a reader."""
    for name in ("tree", "layers", "walk"):
        app.add_lexer(name, TextLexer)
