"""What forms ask for, as commands and as Python: the same values, written two ways."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet._core.errors import ParameterError

_ACCEPTED = {"poor-utility": "--accept-poor-utility", "weak-promise": "--accept-weak-promise"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseForm:
    """A release that is asked for: names of files in the folder, and texts of a form."""

    data: str
    domain: str
    epsilon: str
    delta: str
    size: str
    out: str
    tables: str = ""
    mechanism: str = ""
    unit: str = ""
    max_records: str = ""
    ledger: str = ""
    dataset: str = ""
    seed: str = ""
    accept: tuple[str, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, Any], **facts: str) -> ReleaseForm:
        """Return what a form says. Raises ParameterError where a number is none."""
        texts = {key: str(values.get(key, "")).strip() for key in ("epsilon", "delta", "size", "out")}
        texts |= {
            key: str(values.get(key, "")).strip() for key in ("tables", "mechanism", "unit", "max_records", "seed")
        }
        accept = tuple(code for code in (*_ACCEPTED, "other-columns") if values.get(code))
        names = {"epsilon": "epsilon", "size": "the number of records to release", "delta": "delta"}
        for key, words in names.items():
            _require_number(texts[key] or ("0" if key == "delta" else ""), words)
        return cls(**{**texts, "delta": texts["delta"] or "0", **facts}, accept=accept)

    def arguments(self) -> list[str]:
        """Return the command, without the name of the program."""
        options = {
            "domain": self.domain,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "size": self.size,
            "tables": self.tables if self.tables not in ("", "1") else "",
            "mechanism": self.mechanism,
            "unit": self.unit,
            "max-records": self.max_records if self.unit else "",
            "ledger": self.ledger,
            "dataset": self.dataset,
            "seed": self.seed,
            "out": self.out,
        }
        flags = [_ACCEPTED[code] for code in self.accept if code in _ACCEPTED]
        flags += ["--ignore-other-columns"] * ("other-columns" in self.accept)
        listed = [part for key, text in options.items() if text for part in (f"--{key}", text)]
        return ["release", self.data, *listed, *flags]

    def python(self) -> str:
        """Return the release in Python."""
        budget = f"discreet.Budget(epsilon={self.epsilon}, delta={self.delta})"
        words = {"size": self.size, "tables": self.tables if self.tables not in ("", "1") else ""}
        words |= {key: json.dumps(getattr(self, key)) for key in ("mechanism",) if getattr(self, key)}
        if self.unit:
            words["unit"] = f"discreet.Unit({json.dumps(self.unit)}, max_records={self.max_records})"
        if self.ledger:
            words["ledger"] = f"discreet.Ledger({json.dumps(self.ledger)}, {json.dumps(self.dataset)})"
        if self.accept:
            words["accept"] = "{" + ", ".join(json.dumps(code) for code in self.accept) + "}"
        words |= {"seed": self.seed, "out": json.dumps(self.out)}
        keywords = ", ".join(f"{key}={text}" for key, text in words.items() if text)
        names = f"{json.dumps(self.data)}, {json.dumps(self.domain)}"
        return f"import discreet\n\ndiscreet.release({names}, {budget}, {keywords})"


def plan_arguments(values: Mapping[str, Any], domain: str, page: str, ledger: str) -> list[str]:
    """Return the command that writes the page of budgets. Raises ParameterError where a number is none."""
    texts = {key: str(values.get(key, "")).strip() for key in ("records", "epsilon", "delta", "size", "max-records")}
    for key, words in {"records": "the number of records", "epsilon": "epsilon"}.items():
        _require_number(texts[key], words)
    options = [part for key, text in texts.items() if text for part in (f"--{key}", text)]
    return ["plan", "--domain", domain, *options, *(["--ledger", ledger] if ledger else []), "--html", page]


def estimate_arguments(values: Mapping[str, Any], released: str) -> list[str]:
    """Return the command that answers a question about a release."""
    number, column = str(values.get("functional", "mean")).strip(), str(values.get("column", "")).strip()
    options = {"column": column, "functional": number, "by": str(values.get("by", "")).strip()}
    return ["estimate", released, *[part for key, text in options.items() if text for part in (f"--{key}", text)]]


def estimate_python(values: Mapping[str, Any], released: str) -> str:
    """Return a question about a release in Python."""
    facts = {"column": values.get("column"), "by": values.get("by")}
    keywords = "".join(f", {key}={json.dumps(text)}" for key, text in facts.items() if text)
    number = json.dumps([part.strip() for part in str(values.get("functional", "mean")).split(",")])
    return f"import discreet\n\nprint(discreet.read({json.dumps(released)}).estimate({number}{keywords}))"


def regress_python(values: Mapping[str, Any], released: str) -> str:
    """Return a regression in Python."""
    kind = str(values.get("kind", ""))
    given = f", kind={json.dumps(kind)}" if kind else ""
    formula = json.dumps(str(values.get("formula", "")))
    return f"import discreet\n\nprint(discreet.read({json.dumps(released)}).regress({formula}{given}))"


def in_shell(arguments: list[str]) -> str:
    """Return a command as one writes it in a shell."""
    return shlex.join(["discreet", *arguments])


def _require_number(text: str, words: str) -> None:
    try:
        float(text)
    except ValueError:
        raise ParameterError(f"{words} must be a number. Write one, such as 1") from None
