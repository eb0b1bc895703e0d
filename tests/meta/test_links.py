"""Links between the files at the root and the documentation lead somewhere: in the repository, and on an index page."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)")
FOLDERS = ["src", "tests", "tools", "experiments", "benchmarks"]


def relative_links(text: str) -> list[str]:
    return LINK.findall(text)


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_to_a_file(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [link for link in relative_links(text) if not (ROOT / link).is_file()] == []


def test_links_of_the_readme_lead_to_pages_of_the_documentation_from_an_index_page() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert relative_links(text)
    for rule in settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert relative_links(text) == []
    pictures = re.findall(r"/_static/([\w-]+\.svg)\)", text)
    assert pictures
    conf = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert all(f'"pictures/{name}",' in conf and (ROOT / "docs" / "pictures" / name).is_file() for name in pictures)
    site = settings["project"]["urls"]["Documentation"] + "/en/stable/"
    named = [*re.findall(rf"\({re.escape(site)}([^)#]+)\.html\)", text)]
    named += [
        url.removeprefix(site).removesuffix(".html") for url in settings["project"]["urls"].values() if site in url
    ]
    assert len(named) > 7
    assert [name for name in named if not (ROOT / "docs" / f"{name}.md").is_file()] == []


def test_what_the_readme_and_the_citation_say_of_the_package_is_true() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (told,) = re.findall(r"^Python .*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    versions = [one.rpartition(" ")[2] for one in project["classifiers"] if ":: 3." in one]
    assert f"Python {versions[0]} to {versions[-1]}" in told
    assert project["requires-python"] == f">={versions[0]}"
    assert project["license"] in told
    assert "Typing :: Typed" in project["classifiers"]
    assert (ROOT / "src" / "discreet" / "py.typed").is_file()
    (state,) = (one.rpartition(" ")[2].lower() for one in project["classifiers"] if one.startswith("Development"))
    assert state in told
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in cited
    assert f"\nlicense: {project['license']}\n" in cited


def test_the_source_distribution_takes_named_files_at_the_root_only() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(pattern.startswith("/") for pattern in included)  # others match in every folder
    assert all((ROOT / pattern[1:]).exists() for pattern in included)


@pytest.mark.parametrize("name", ["runtime", "release"])
def test_every_locked_file_has_hashes_and_comes_from_no_other_place(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry
    assert not re.search(r"https?://|file:|--index|--find-links|@ ", text)


def test_names_of_the_code_in_the_guide_to_contributing_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", text)) - {"PYENV_VERSION", "my_mechanism.py"}
    files = [*ROOT.glob("*.*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*"))]
    there = {path.name for path in files}
    there |= {
        word for path in files if path.suffix in {".py", ".toml"} for word in re.findall(r"\w+", path.read_text())
    }
    assert len(named) > 50
    assert {name for name in named if name not in there and name.rpartition(".")[2] not in there} == set()
