"""What forms ask for, as commands and as Python: the same values, written two ways."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from discreet._core.errors import ParameterError

_NUMBER = r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"  # as Python reads one, too
_NUMBERS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "size": "the number of records to release",
    "records": "the number of records",
    "tables": "the number of tables",
    "seed": "a seed",
    "max_records": "the most records of a unit",
}
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
    out_format: str = ""  # of the tables of a folder
    accept: tuple[str, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, Any], **facts: str) -> ReleaseForm:
        """Return what a form says. Raises ParameterError where a number is not one."""
        texts = _stripped(
            values, "epsilon", "size", "delta", "out", "tables", "mechanism", "seed", needed=("epsilon", "size")
        )
        accept = tuple(code for code in (*_ACCEPTED, "other-columns") if values.get(code))
        texts |= {"delta": texts["delta"] or "0", "tables": "" if texts["tables"] == "1" else texts["tables"]}
        return cls(**{**texts, **facts}, accept=accept)

    def arguments(self) -> list[str]:
        """Return the command, without the name of the program."""
        flags = [_ACCEPTED[code] for code in self.accept if code in _ACCEPTED]
        if "other-columns" in self.accept:
            flags.append("--ignore-other-columns")
        facts = {"domain": self.domain, "epsilon": self.epsilon, "delta": self.delta, "size": self.size}
        facts |= {
            "tables": self.tables,
            "mechanism": self.mechanism,
            "unit": self.unit,
            "max_records": self.max_records,
        }
        facts |= {"ledger": self.ledger, "dataset": self.dataset, "seed": self.seed, "out": self.out}
        facts |= {"out_format": self.out_format}
        return ["release", self.data, *_options(**facts), *flags]

    def python(self) -> str:
        """Return the release in Python."""
        numbers = {key: Expression(getattr(self, key)) for key in ("size", "tables", "seed")}
        unit = _call("discreet.Unit", self.unit, max_records=Expression(self.max_records)) if self.unit else ""
        ledger = _call("discreet.Ledger", self.ledger, self.dataset) if self.ledger else ""
        accept = f"{{{', '.join(map(json.dumps, self.accept))}}}" if self.accept else ""
        objects = {"unit": Expression(unit), "ledger": Expression(ledger), "accept": Expression(accept)}
        budget = Expression(f"discreet.Budget(epsilon={self.epsilon}, delta={self.delta})")
        out = self.out
        if self.out_format:
            out = Expression(_call("discreet.Output", self.out, format=self.out_format))
        facts = {**numbers, "mechanism": self.mechanism, **objects, "out": out}
        return _program(_call("discreet.release", self.data, self.domain, budget, **facts))


def plan_request(values: Mapping[str, Any], domain: str, page: str, ledger: str) -> tuple[list[str], str]:
    """Return the command that writes the page of budgets, and the Python. Raises ParameterError for a word."""
    texts = _stripped(values, "records", "epsilon", "delta", "size", needed=("records", "epsilon"))
    budget = f"discreet.Budget(epsilon={texts['epsilon']}, delta={texts['delta'] or 0})"
    numbers = {"records": texts["records"], "size": texts["size"]}
    paid = _call("write_page", "plan.html", ledger=ledger)
    python = _call(
        "discreet.plan", domain, Expression(budget), **{key: Expression(text) for key, text in numbers.items() if text}
    )
    return ["plan", *_options(domain=domain, **texts, ledger=ledger, html=page)], _program(f"{python}.{paid}")


def check_python(data: str, domain: str) -> str:
    """Return the comparison of a table with its declaration in Python."""
    imports = "from discreet.confidential import check_table, reveal_to_custodian\nfrom discreet.domain import Domain"
    checked = _call(
        "check_table", data, Expression(_call("Domain.read", domain)), accept=Expression('{"other-columns"}')
    )
    return f"{imports}\n\nprint(reveal_to_custodian({checked}))"


def ledger_request(values: Mapping[str, Any], place: str) -> tuple[list[str], str]:
    """Return the command that makes a ledger, and the Python."""
    texts = _stripped(values, "epsilon", "dataset", "delta", "unit", "max_records", needed=("epsilon",))
    unit = ""
    if texts["unit"]:
        unit = _call("discreet.Unit", texts["unit"], max_records=Expression(texts["max_records"]))
    else:
        texts["max_records"] = ""
    numbers = {key: Expression(texts[key]) for key in ("epsilon", "delta")}
    made = _call("discreet.Ledger.create", place, dataset=texts["dataset"], **numbers, unit=Expression(unit))
    return ["ledger", "init", place, *_options(**texts)], _program(made)


def report_python(released: str, data: str = "", domain: str = "") -> str:
    """Return the report of a release in Python."""
    page = "report.html"
    if data:
        page = "confidential.html"
    written = _call("write_report", released, page, data=data, domain=domain)
    return f"from discreet.report import write_report\n\n{written}"


def verify_python(certificate: str, data: str) -> str:
    """Return the check of a certificate in Python."""
    return _program(f"print({_call('discreet.verify', certificate, data=data)})")


def question(values: Mapping[str, Any], released: str) -> tuple[list[str], str]:
    """Return the command that answers a question about a release, a number or a regression, and the Python."""
    texts = _stripped(values, "functional", "column", "by", "formula", "kind")
    release = _call("discreet.read", released)
    if "formula" in values:
        asked = _call("regress", texts["formula"], kind=texts["kind"])
        return ["regress", *_options(kind=texts["kind"]), "--", released, texts["formula"]], _shown(release, asked)
    numbers = Expression(json.dumps([part.strip() for part in texts["functional"].split(",")]))
    asked = _call("estimate", numbers, column=texts["column"], by=texts["by"])
    options = _options(column=texts["column"], functional=texts["functional"], by=texts["by"])
    return ["estimate", released, *options], _shown(release, asked)


class Expression(str):
    """A text that is Python already."""

    __slots__ = ()


def _call(function: str, *arguments: str, **keywords: str) -> str:
    """Write a call; keywords without a text are left out."""
    named = [f"{key}={_literal(text)}" for key, text in keywords.items() if text]
    return f"{function}({', '.join([*map(_literal, arguments), *named])})"


def _literal(argument: str) -> str:
    if isinstance(argument, Expression):
        return argument
    return json.dumps(argument)


def _program(text: str) -> str:
    return f"import discreet\n\n{text}"


def _shown(release: str, asked: str) -> str:
    return _program(f"print({release}.{asked})")


def _options(**texts: str) -> list[str]:
    """Return options of a command; those without a text are left out, and no text is taken for an option."""
    pairs = [(f"--{key.replace('_', '-')}", text) for key, text in texts.items() if text]
    return [part for name, text in pairs for part in ([f"{name}={text}"] if text.startswith("-") else [name, text])]


def in_shell(arguments: list[str]) -> str:
    """Return a command as one writes it in a shell."""
    return shlex.join(["discreet", *arguments])


def _stripped(values: Mapping[str, Any], *keys: str, needed: Collection[str] = ()) -> dict[str, str]:
    """Return fields of a form. Raises ParameterError where a number is not one, or one that is needed is missing."""
    texts = {key: str(values.get(key, "")).strip() for key in keys}
    for key, text in texts.items():
        if key in _NUMBERS and (text or key in needed) and not re.fullmatch(_NUMBER, text, re.ASCII):
            raise ParameterError(f"{_NUMBERS[key]} must be a number. Write one, such as 1")
    return texts
