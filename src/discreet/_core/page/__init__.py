"""Pages: one HTML file each, which loads nothing from elsewhere; what they look like, and say within."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem, ParameterError
from discreet._core.files import check_outputs, check_writable, together
from discreet._core.text import about, rounded_up
from discreet._core.version import __version__

FilePath = str | os.PathLike[str]


def rendered(
    package: str, template: str, page: dict[str, Any], *, script: str | None = None, style: str | None = None
) -> str:
    """Return a page as text.

    Raises ParameterError when Jinja2 is not installed.

    ``package``: whose folder ``page`` has the template.
    ``template``: of the page.
    ``page``: what it shows.
    ``script``: what it runs; nothing by default.
    ``style``: what it looks like beside what all pages do.
    """
    try:
        import jinja2
    except ImportError:
        raise ParameterError("the page needs Jinja2. Install it: pip install 'discreet[report]'") from None
    own, shared = jinja2.PackageLoader(package, "page"), jinja2.PackageLoader("discreet._core", "page")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([own, shared]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, epsilon=_epsilon, delta=rounded_up)
    environment.globals.update(version=__version__)
    look = shared.get_source(environment, "style.css")[0]
    look += "" if style is None else own.get_source(environment, style)[0]
    code = "" if script is None else own.get_source(environment, script)[0]
    # The page runs this script and uses this style, and loads nothing: a name in the data that looks like code is text.
    policy = "default-src 'none'; script-src {}; style-src '{}'; base-uri 'none'; form-action 'none'".format(
        f"'{_fingerprint(code)}'" if code else "'none'", _fingerprint(look)
    )
    text: str = environment.get_template(template).render(**page, policy=policy, style=look, script=code)
    return text


def _number(value: float | None) -> str:
    return "-" if value is None else about(value, 4)


def _epsilon(value: float) -> str:
    return rounded_up(value, 6)


def _fingerprint(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


OWN = "written by discreet"
"""What every page and picture says of itself, so that no other file is replaced by one."""

NOTICE = "CONFIDENTIAL: computed from the private data"
"""What a page or figure says of itself that shows such numbers."""


def require_own(path: Path) -> None:
    """Refuse to replace a page or picture that does not say within that it is one of this package's."""
    own = not os.path.lexists(path)
    with contextlib.suppress(OSError):
        own = own or OWN.encode() in path.read_bytes()
    if not own:
        raise FileProblem(path, "it exists and was not written by discreet", "give another name, or move it away")


def require_page(out: FilePath, inputs: Sequence[Any]) -> Path:
    """Return the path of a page that is to be written. Raises FileProblem where it may not be."""
    path = Path(out)
    if path.suffix.lower() != ".html":
        raise FileProblem(out, "the format is not known by this ending", "end the name in .html")
    check_outputs([path], inputs)
    check_writable(path)
    require_own(path)
    return path


def write_own(path: Path, text: str, *, inputs: Sequence[Any] = (), private: bool = False) -> None:
    """Write a text that says within that it is one of this package's, in place of nothing but another such one."""
    with together(path, inputs=inputs, private=private, check=lambda: require_own(path)) as (file,):
        file.write(text.encode())
