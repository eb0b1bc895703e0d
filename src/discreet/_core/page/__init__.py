"""Pages: one HTML file each, which loads nothing from elsewhere. What they look like, and how they are escaped."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from discreet._core.errors import ParameterError
from discreet._core.text import about, rounded_up
from discreet._core.version import __version__


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
