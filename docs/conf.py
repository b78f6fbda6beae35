"""Settings of Sphinx."""

from importlib.metadata import version as installed

project = "smalti"
author = "the smalti authors"
version = release = installed("smalti")
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
# Our own fences: a list the tests read, and links to generated benchmark pages that may not have been made yet.
suppress_warnings = ["misc.highlighting_failure", "image.not_readable", "myst.xref_missing", "toc.not_readable"]
