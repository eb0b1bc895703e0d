"""Write what is published of a certificate's fields: the JSON Schema, and the tables of its reference page.

    python tools/certificate.py [--check]

Both are made from the dataclasses in ``discreet.releases.facts``: the schema from what holds of each field, a table's
row from the text below it. The table of codes is made from the sentences in ``discreet.wording``, and the types of
columns are the kinds of ``discreet.domain``. Other definitions of the schema stay as they are: domains, parameters and
codes. ``--check`` writes nothing, and fails where something would change.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from pathlib import Path
from types import NoneType
from typing import Any

from discreet.domain import KINDS
from discreet.privacy import AttackBudget, Code
from discreet.releases import facts
from discreet.releases.facts import CertificateFacts, Facts, FileFacts, GuaranteeFacts, ReleasedFacts
from discreet.wording import SENTENCES

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "src" / "discreet" / "releases" / "certificate.schema.json"
PAGE = ROOT / "docs" / "reference" / "certificate.md"
NAMES: dict[type[Facts], str] = {
    CertificateFacts: "release",
    facts.LibraryFacts: "library",
    facts.RelationFacts: "relation",
    GuaranteeFacts: "promise",
    FileFacts: "table",
}
"""The definitions of the schema that are dataclasses; any other dataclass stands where it is used."""

TABLES: tuple[type[Facts], ...] = (CertificateFacts, ReleasedFacts, GuaranteeFacts)
"""The dataclasses that have a table of their own on the page; any other has rows in one of these."""


def definition(part: type[Facts]) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass."""
    rules = part.rules()
    return {
        "type": "object",
        "required": [name for name, rule in rules.items() if rule["required"]],
        "properties": {name: _schema(rule) for name, rule in rules.items()},
        "additionalProperties": False,
    }


def _schema(rule: Any) -> dict[str, Any]:
    if rule["schema"] is not None:
        return dict(rule["schema"])
    part = rule["part"]
    inner = {"$ref": f"#/$defs/{NAMES[part]}"} if part in NAMES else definition(part)
    if list in rule["kinds"]:
        return {"type": "array", "minItems": 1, "items": inner}
    return {"oneOf": [{"type": "null"}, inner]} if NoneType in rule["kinds"] else inner


def schema(published: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema, given the published one."""
    definitions = {name: definition(part) for part, name in NAMES.items()}
    column = published["$defs"]["column"]
    definitions["column"] = {**column, "properties": {**column["properties"], "type": {"enum": [*KINDS]}}}
    kept = {name: one for name, one in published["$defs"].items() if definitions.get(name, one) == one}
    return {**published, "$defs": {**published["$defs"], **definitions, **kept}}


def texts() -> dict[str, dict[str, str]]:
    """Return the text below each field, by dataclass."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(facts)).body:
        field = ""
        for item in getattr(node, "body", []):
            if isinstance(item, ast.AnnAssign):
                field = ast.unparse(item.target)
            elif field and isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
                found.setdefault(node.name, {})[field] = " ".join(str(item.value.value).split())
    return found


def table(part: type[Facts]) -> list[str]:
    """Return the lines of a table, as Markdown."""
    return ["| field | meaning |", "|---|---|", *_rows(part, "", texts())]


def _rows(part: type[Facts], place: str, said: dict[str, dict[str, str]]) -> list[str]:
    lines = []
    for name, rule in part.rules().items():
        lines.append(f"| `{place}{name}` | {said[part.__name__][name]} |")
        if rule["part"] not in (None, AttackBudget, Code, *TABLES):
            lines += _rows(rule["part"], f"{place}{name}[]." if list in rule["kinds"] else f"{place}{name}.", said)
    return lines


def codes() -> list[str]:
    """Return the lines of the table of codes, with the names of the numbers in the sentences."""
    lines = ["| code | sentence |", "|---|---|"]
    for name, form in SENTENCES.items():
        said = form if isinstance(form, str) else str(form.__doc__).removeprefix("Return ").rstrip(".")
        said = re.sub(r"{(\w+):if ([^}]*)}", r"[\2]", said)
        said = re.sub(r"{(\w+)[^}]*}", r"*\1*", said)
        lines.append(f"| `{name}` | {said} |")
    return lines


def page(published: str) -> str:
    """Return the reference page, given the published one: each table stands after its name."""
    for name, lines in {**{part.__name__: table(part) for part in TABLES}, "codes": codes()}.items():
        mark = f"<!-- {name}, by tools/certificate.py -->\n\n"
        rest = published.partition(mark)[2]
        held = re.match(r"(?:\|.*\n)*", rest)
        if not rest or held is None:
            raise ValueError(f"the page has no place for {name}")
        published = published.replace(mark + held[0], mark + "\n".join(lines) + "\n")
    return published


def main() -> int:
    """Write both, or check that nothing would change."""
    before = {path: path.read_text(encoding="utf-8") for path in (SCHEMA, PAGE)}
    after = {SCHEMA: json.dumps(schema(json.loads(before[SCHEMA])), indent=2) + "\n", PAGE: page(before[PAGE])}
    if "--check" in sys.argv:
        return int(before != after)
    for path, text in after.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
