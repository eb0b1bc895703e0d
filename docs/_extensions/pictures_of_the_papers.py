"""The gallery's pictures: drawn before the site is built where they are older than what they are drawn from."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
sys.path.insert(0, str(EXPERIMENTS))

from pictures import HERE, THEMES, Picture, draw, pictures  # noqa: E402

DRAWN = Path(__file__).parents[1] / "gallery" / "drawn"
log = logging.getLogger(__name__)


def older(picture: Picture) -> bool:
    """Whether a picture is not there, or older than its data or than the code that draws pictures."""
    files = [DRAWN / f"{picture.name}-{theme}.{kind}" for theme in THEMES for kind in ("svg", "png")]
    made_of = [*picture.data, *HERE.glob("*.py"), *HERE.glob("*.mplstyle")]
    return not all(file.exists() for file in files) or min(file.stat().st_mtime for file in files) < max(
        file.stat().st_mtime for file in made_of
    )


def draw_what_is_older(app: Sphinx) -> None:
    """Draw the pictures that are not there yet."""
    names = [name for name, picture in pictures().items() if older(picture)]
    if names:
        log.info("drawing %s pictures", len(names))
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(draw, repeat(DRAWN), [[name] for name in names]))


def in_both_themes(name: str, kind: str, text: str) -> list[nodes.Node]:
    """Return the two images of a picture, of which a page shows the one that fits it."""
    return [
        nodes.image(uri=f"/gallery/drawn/{name}-{theme}.{kind}", alt=text, classes=[f"only-{theme}"])
        for theme in THEMES
    ]


class PaperPicture(SphinxDirective):
    """A picture of results, and where it comes from."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        picture = pictures()[self.arguments[0]]
        self.env.note_dependency(str(picture.data[0]))
        text = (picture.draw.__doc__ or "").strip()
        source = Path(sys.modules[picture.draw.__module__].__file__ or "")
        caption = nodes.paragraph("", "", nodes.emphasis("", text), classes=["picture-caption"])
        caption += nodes.Text(" Drawn by ")
        caption += nodes.literal("", source.relative_to(EXPERIMENTS.parent).as_posix())
        caption += nodes.Text(" from ")
        for place, data in enumerate(picture.data):
            caption += nodes.Text(" and " if place else "")
            caption += nodes.literal("", data.relative_to(EXPERIMENTS.parent).as_posix())
        caption += nodes.Text(".")
        target = nodes.target("", "", ids=[picture.name.replace("_", "-")])
        return [target, nodes.container("", *in_both_themes(picture.name, "svg", text), caption, classes=["picture"])]


class PictureGrid(SphinxDirective):
    """All pictures of a paper, small, each a link to its place on the paper's page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (paper,) = self.arguments
        grid = nodes.container(classes=["picture-grid"])
        for name, picture in pictures().items():
            if name.partition("_")[0] != paper:
                continue
            text = (picture.draw.__doc__ or "").strip()
            link = nodes.reference("", "", refuri=f"{paper}.html#{name.replace('_', '-')}", classes=["picture-card"])
            link += in_both_themes(name, "png", "")
            link += nodes.inline("", text)
            grid += nodes.paragraph("", "", link)
        return [grid]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("paper-picture", PaperPicture)
    app.add_directive("picture-grid", PictureGrid)
    app.connect("builder-inited", draw_what_is_older)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
