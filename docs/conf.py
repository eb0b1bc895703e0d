"""Sphinx configuration. ``nox -s docs`` builds the site and checks what was built."""

import os
import sys
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ConfigError

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "experiments")]
# Commands in tutorials are those of the environment that builds the site.
os.environ |= {"COLUMNS": "100", "TERM": "dumb"}
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

project = "discreet"
author = "The discreet developers"
copyright = "2026, The discreet developers"
try:
    release = metadata.version("discreet")
    mathjax = resources.files("sphinx-mathjax-offline") / "static" / "mathjax"
except ModuleNotFoundError as missing:
    raise ConfigError(
        f"the documentation needs {missing.name}, which is not installed.\n"
        "Build it with: python -m nox -s docs\n"
        "Or install what it needs first: python -m pip install -e '.[demo,formula,transport,bayes]' --group docs"
    ) from None
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "pictures_of_the_papers",
    "tables_of_names",
]
myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Tutorials are run each time, in a folder of their own. An error in one is a warning with its traceback, and fails the
# build where warnings are errors.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "image/svg+xml", 0)]

# Formulas are drawn by a copy of MathJax that is part of the site: one file, which needs no fonts.
mathjax_path = "tex-svg-full.js"
mathjax3_config = {"options": {"enableMenu": False}}

html_theme = "furo"
html_title = f"discreet {release}"
html_static_path = [
    "_static",
    "pictures/release-light.svg",
    "pictures/release-dark.svg",
    str(mathjax / mathjax_path),
]
html_css_files = ["discreet.css"]
html_js_files = ["discreet.js"]
html_copy_source = False
html_show_sphinx = False
exclude_patterns = ["_build", "gallery/drawn"]

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
suppress_warnings = ["ref.python"]


def give_headings_a_level(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Say how deep the captions of lists of pages are, for screen readers; Sphinx and the theme do not."""
    for part in {"furo_navigation_tree", "body"} & context.keys():
        context[part] = context[part].replace('role="heading">', 'role="heading" aria-level="2">')


def spread_tutorials(_app: Sphinx, _environment: Any, names: list[str]) -> None:
    """Spread the tutorials, which are run, evenly among the pages: neighbours are read by one process."""
    groups = [[name for name in names if name.startswith("tutorials/") is run] for run in (True, False)]
    ranks = {name: (place + 0.5) / len(group) for group in groups for place, name in enumerate(group)}
    names.sort(key=ranks.__getitem__)


def setup(app: Sphinx) -> None:
    """Connect what is done to every page, after the theme, and in which order pages are read."""
    app.connect("env-before-read-docs", spread_tutorials)
    app.connect("html-page-context", give_headings_a_level, priority=900)
