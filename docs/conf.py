"""Settings of Sphinx. No warning is suppressed: `make docs` fails on each."""

import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx import addnodes

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
    app.connect("doctree-read", unlink_words)


def unlink_words(_: Any, tree: Any) -> None:
    """A parameter of type "path or URI" is no link to an attribute that is called `path`."""
    for link in list(tree.findall(addnodes.pending_xref)):
        if link["reftarget"] == "path":
            link.replace_self(link.children)
