"""The pages, one function each: what was asked, the command that answers it, and the template that shows it."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import jinja2
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from discreet import report
from discreet._core.errors import DiscreetError
from discreet._core.files import together
from discreet._core.text import rounded_up
from discreet.app import requests
from discreet.app.access import EMBEDDED, Access
from discreet.app.declaration import ENTRIES, KEEP_OUT, Declared, Key, begun, declared, from_fields, further_ends
from discreet.app.jobs import Job, Jobs, interrupt
from discreet.app.workspace import Workspace
from discreet.domain import KINDS, Domain

_MOST_BYTES = 2**20  # of a form
_MOST_TOKEN = 2**10
_USUAL = {"epsilon": "1", "delta": "1e-6", "tables": "1", "other-columns": "1"}
_WRITTEN = {"parquet": "Parquet", "csv": "CSV", "csv.gz": "CSV, packed (.gz)", "tsv": "tab-separated"}
_SOON = 2.0  # seconds after which an answer that is waited for shows its progress
_NEXT = {"/plan": "Plan", "/release": "Release", "/home": "Start"}  # what a command's page leads to, by address


class Unfinished(Exception):
    """A page needs the answer of a command that still runs."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job


class Steps:
    """The pages about a workspace."""

    def __init__(self, workspace: Workspace, access: Access, scratch: Path) -> None:
        self.workspace, self.access, self.scratch = workspace, access, scratch
        self.jobs = Jobs(workspace.folder)
        self.windows = 0  # that are open
        self._kinds: dict[Key, str] = {}  # of the columns, by file and name
        self._naming: dict[str, Job] = {}  # the commands that find them, by file
        self._header = False  # whether the owner says that the first line holds names
        self._typed = dict(_USUAL)  # into the forms of a plan and a release, which begin with it
        loader = jinja2.ChoiceLoader(
            [jinja2.PackageLoader(name, "page") for name in ("discreet.app", "discreet._core")]
        )
        self._templates = jinja2.Environment(
            loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._style = "".join(loader.get_source(self._templates, name)[0] for name in ("style.css", "app.css"))
        self._script = loader.get_source(self._templates, "app.js")[0]

    # -- what every page has ------------------------------------------------------------------------------------------

    def page(self, template: str, title: str, *, step: str = "", status: int = 200, **facts: Any) -> Response:
        """Return a page."""
        data = self.workspace.data
        shared: dict[str, Any] = {"title": title, "step": step, "data": data and data.name}
        shared["folder"] = self.workspace.folder.name
        released = self.workspace.released
        shared |= {"released": released and released.name, "quote": quote, "problem": None, "shell": requests.in_shell}
        shared["base"] = self.access.base
        text = self._templates.get_template(template).render({**shared, **facts})
        return HTMLResponse(text, status_code=status)

    def style(self, _: Request) -> Response:
        """Return the style."""
        return Response(self._style, media_type="text/css")

    def script(self, _: Request) -> Response:
        """Return the script."""
        return Response(self._script, media_type="text/javascript")

    def entrance(self, _: Request) -> Response:
        """Return the page that exchanges the token: it says nothing about a file."""
        return HTMLResponse(self._templates.get_template("entrance.html").render(title="discreet"))

    async def enter(self, request: Request) -> Response:
        """Exchange the token for a cookie."""
        values = await _form(request, _MOST_TOKEN)
        if not self.access.exchange(values.get("token", "")):
            return Response("This address was used before, or is not the one in the terminal.", status_code=403)
        return self.access.admit(JSONResponse({"next": f"{self.access.base}/home"}))

    # -- the file, what is known of it, and its declaration -----------------------------------------------------------

    async def home(self, _: Request) -> Response:
        """Show what there is: the declaration, the ledger, and releases; or the release that the page is about."""
        if self.workspace.released is not None:
            address = f"{self.access.base}/read/{quote(self.workspace.released.name, safe='')}"
            return RedirectResponse(address, status_code=303)
        found = await asyncio.to_thread(self._found)
        return self.page("home.html", "Your table", step="home", **found)

    def _found(self) -> dict[str, Any]:
        """Return what is in the folder."""
        ledger, problem = None, None
        try:
            ledger = self.workspace.ledger()
        except DiscreetError as refusal:
            problem = str(refusal)
        complete, rows = self.workspace.domain() is not None, self._rows
        names = {entry.name.partition(".")[0] for entry in self.workspace.folder.iterdir()}
        candidates = itertools.chain(["synthetic"], (f"synthetic-{number}" for number in itertools.count(2)))
        return {
            "out": next(name for name in candidates if name not in names),
            "rows": rows,
            "covers": ledger["covers"] if ledger and not rows else {},
            "declaration": self.workspace.domain_file.name,
            "complete": complete,
            "begun": complete or self.workspace.domain_file.exists(),
            "ledger": ledger,
            "ledger_name": self.workspace.ledger_file.name,
            "problem": problem,
            "releases": self.workspace.releases(),
        }

    async def _columns(self, request: Request) -> dict[Key, str]:
        """Return the types of the columns, by file and name: no row of a file is read but of CSV, for its form."""
        if not self._kinds:
            data, places = self._data, self.workspace.tables.items()
            files = {name: f"{data}/{file.name}" if name else data for name, file in places}
            options = ["--header", "--json"] if self._header else ["--json"]
            naming = self._naming = self._naming or {
                name: await self.jobs.start("Names and types", ["domain", "init", file, *options])
                for name, file in files.items()
            }
            seconds = _SOON if request.method == "GET" else None
            for job in naming.values():
                if (await self.jobs.wait(job, seconds)).running:
                    raise Unfinished(job)
            self._naming, kinds = {}, dict[Key, str]()
            for name, job in naming.items():
                if not (document := job.document()):
                    raise DiscreetError(job.err.strip() or "the file cannot be read")
                columns = declared([], document["template"]).columns
                kinds |= {(name, column): str(facts.get("type", "")) for (_, column), facts in columns.items()}
            self._kinds = kinds
        return self._kinds

    @property
    def _data(self) -> str:
        """The name of the confidential file. Raises HTTPException where the page is about a release."""
        if self.workspace.data is None:
            raise HTTPException(404)
        name = self.workspace.data.name
        if name.startswith("-"):
            return f"./{name}"
        return name

    @property
    def _rows(self) -> Any:
        """The declared domain, where a unit has several rows; None where each row is a record of its own."""
        domain = self.workspace.domain()
        if domain and domain.row_tables:
            return domain
        return None

    async def _declared(self, request: Request) -> Declared:
        """Return the declaration that is there, or one in which every column waits."""
        kinds = await self._columns(request)
        if text := self.workspace.declaration():
            return declared([*kinds], text)
        return begun(kinds)

    async def declare(self, request: Request) -> Response:
        """Show the form of a declaration, check what is typed, or write it."""
        values = await _fields(request)
        if "header" in values:
            self._header = True
            return RedirectResponse(f"{self.access.base}/declare", status_code=303)
        try:
            before = await self._declared(request)
        except DiscreetError as problem:
            return self.page("message.html", "Declare", step="declare", problem=str(problem), status=400)
        facts: dict[str, Any] = {"entries": ENTRIES, "kinds": ("", KEEP_OUT, *KINDS), "saved": None}
        if request.method == "POST":
            before = from_fields(before, values)
            if request.url.path.endswith("/check"):
                states = [[before.state(key), key in before.problems] for key in before.keys]
                return JSONResponse({"toml": before.text, "states": states, "verdict": before.state(None)})
            facts |= {"saved": await asyncio.to_thread(self._write, before.text)}
        facts |= {"declared": before, "file": self.workspace.domain_file.name}
        facts |= {"several": [(name, name) for name in before.files], "names": [(name, name) for name in before.names]}
        facts |= {"ends": ["", *further_ends(before)]}
        return self.page("declare.html", "Declare what is public", step="declare", **facts)

    def _write(self, text: str) -> str:
        """Write the declaration, all of it or nothing."""
        with together(self.workspace.domain_file, inputs=(self.workspace.data,)) as (file,):
            file.write(text.encode())
        return self.workspace.domain_file.name

    # -- what runs as a command ---------------------------------------------------------------------------------------

    async def check(self, request: Request) -> Response:
        """Compare the declaration with the file, for the custodian alone."""
        title, domain = "Check the table", self.workspace.domain_file.name
        arguments = ["domain", "check", self._data, "--domain", domain, "--ignore-other-columns"]
        if request.method == "GET":
            return self.page("check.html", title, step="check", arguments=arguments)
        facts: dict[str, Any] = {"python": requests.check_python(self._data, domain), "confidential": True}
        return self._to(await self.jobs.start(title, arguments, next_address="/plan", back="/declare", **facts))

    async def plan(self, request: Request) -> Response:
        """Show what budgets buy."""
        file = self.workspace.ledger_file
        ledger = file.name if file.exists() else ""
        shown: dict[str, Any] = {"step": "plan", "ledger": ledger, "rows": self._rows}
        if request.method == "GET":
            return self.page("plan.html", "Plan", values=self._typed, **shown)
        values, page = await _form(request), self._scratch_page()
        shown |= {"values": values}
        try:
            domain = self.workspace.domain_file.name
            arguments, python = requests.plan_request(values, domain, str(page), ledger)
        except DiscreetError as problem:
            return self.page("plan.html", "Plan", problem=str(problem), status=400, **shown)
        self._typed |= values | {"size": values.get("size", "").strip() or values["records"]}
        facts: dict[str, Any] = {"page": page, "python": python, "back": "/plan"}
        return self._to(await self.jobs.start("Plan", arguments, next_address="/release", **facts))

    async def release(self, request: Request) -> Response:
        """Ask for a release, show it as a command and in Python, and make it."""
        found, title, several = await self._release_facts(), "Release", self.workspace.several
        facts = dict(found)
        if request.method == "GET":
            epsilon = {key: text for key, text in request.query_params.items() if key == "epsilon"}
            return self.page("release.html", title, step="release", **{**facts, "values": self._typed | epsilon})
        values = await _form(request)
        records = {key: text for key, text in self._typed.items() if key == "records"}
        self._typed = records | {key: text for key, text in values.items() if key not in ("seed", "out", "show")}
        paid: dict[str, str] = {}
        facts |= {"values": values}
        if found["ledger"] and not values.get("seed", "").strip():  # no ledger pays for a trial
            paid = {"ledger": found["ledger_name"], "dataset": found["ledger"]["dataset"]}
        try:
            ending = values.get("format", "")
            if ending not in _WRITTEN:
                ending = "parquet"
            folder = several or values.get("tables", "").strip() not in ("", "1")
            out = self.workspace.output(values.get("out", ""), "" if folder else ending)
            kind = ending if folder and ending != "parquet" else ""
            names = {"data": self._data, "domain": self.workspace.domain_file.name, "out": out, "out_format": kind}
            form = requests.ReleaseForm.parse(values, **names, **found["covers"], **paid)
        except (DiscreetError, TypeError) as problem:
            return self.page("release.html", title, step="release", **{**facts, "problem": str(problem)}, status=400)
        if "show" in values:
            facts |= {"command": requests.in_shell(form.arguments()), "python": form.python()}
            return self.page("release.html", title, step="release", **facts)
        address = f"/read/{quote(out, safe='')}"
        shown = {"python": form.python(), "back": "/release", "form": {**paid, "out": out}}
        job = await self.jobs.start(title, form.arguments(), next_address=address, **shown)
        return self._to(job)

    async def _release_facts(self) -> dict[str, Any]:
        """Return what the page of releases shows before anything is asked for."""
        found = await asyncio.to_thread(self._found)
        more = {"values": self._typed, "formats": _WRITTEN, "several": self.workspace.several}
        return {**found, **more, "command": None, "python": None}

    async def ledger(self, request: Request) -> Response:
        """Make a ledger."""
        values, place = await _form(request), self.workspace.ledger_file.name
        rows = self._rows  # who is protected is declared once
        values |= {"unit": "", "max_records": ""}
        if rows:
            values |= {"unit": rows.unit, "max_records": str(rows.max_records)}
        try:
            arguments, python = requests.ledger_request(values, place)
        except DiscreetError as problem:
            facts = {**await self._release_facts(), "problem": str(problem)}
            return self.page("release.html", "Release", step="release", **facts, status=400)
        facts = {"python": python, "back": "/release"}
        return self._to(await self.jobs.start("Make a ledger", arguments, next_address="/release", **facts))

    # -- what was released --------------------------------------------------------------------------------------------

    async def read(self, request: Request) -> Response:
        """Show a release: what was promised, forms to ask it, and an answer, or its progress where it takes long."""
        release, answer = self._release_of(request), None
        if "answer" in request.query_params:
            answer = await self.jobs.wait(self._job_of(request.query_params["answer"]), _SOON)
            if answer.running:
                return self.progress(answer)
        facts = release.certificate.facts
        columns = [name for name in facts.released.columns if facts.unit is None or name != facts.unit.column]
        shown: dict[str, Any] = {
            "columns": columns,
            "declared": report.declared(Domain.from_dict(facts.domain).row_domain),
            "answer": answer,
        }
        return self.page("read.html", release.name, step="read", release=release, **shown)

    def _release_of(self, request: Request) -> Any:
        try:
            return self.workspace.release(request.path_params["name"])
        except DiscreetError:
            raise HTTPException(404) from None

    async def report(self, request: Request) -> Response:
        """Write the report of a release: public, or beside the confidential table."""
        release, page = self._release_of(request), self._scratch_page()
        arguments, beside = ["report", release.name, "--out", str(page)], "beside" in await _form(request)
        table, title = ("", ""), "Report"
        if beside:
            table, title = (self._data, self.workspace.domain_file.name), "Released beside confidential"
            arguments += ["--data", table[0], "--domain", table[1]]
        address = f"/read/{quote(release.name, safe='')}"
        facts: dict[str, Any] = {"page": page, "confidential": beside, "back": address}
        facts |= {"python": requests.report_python(release.name, *table)}
        return self._to(await self.jobs.start(title, arguments, next_address=address, **facts))

    async def question(self, request: Request) -> Response:
        """Answer a question about a release, a number or a regression."""
        release, values = self._release_of(request), await _form(request)
        arguments, python = requests.question(values, release.name)
        job = await self.jobs.start("Estimate", arguments, python=python, form=values)
        address = f"{self.access.base}/read/{quote(release.name, safe='')}?answer={job.number}#answer-h"
        return RedirectResponse(address, status_code=303)

    async def verify(self, request: Request) -> Response:
        """Recompute what the certificate of a release says."""
        release = self._release_of(request)
        place = str(release.certificate_path.relative_to(self.workspace.folder))
        arguments, data = ["verify", place, "--data", release.name], release.name
        if release.path.is_dir():
            arguments, data = ["verify", release.name], ""
        address = f"/read/{quote(release.name, safe='')}"
        python = requests.verify_python(arguments[1], data)
        return self._to(await self.jobs.start("Verify", arguments, next_address=address, back=address, python=python))

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _job_of(self, number: Any) -> Job:
        with suppress(KeyError, ValueError):
            return self.jobs[int(number)]
        raise HTTPException(404)

    async def job(self, request: Request) -> Response:
        """Show a command that runs, or its result."""
        job = self._job_of(request.path_params["number"])
        result = None
        if job.arguments[0] == "release" and job.status == 0:
            result = await asyncio.to_thread(self._result, job)
        return self.progress(job, result)

    def progress(self, job: Job, result: Any = None) -> Response:
        """Show a command that runs, at the address of what waits for it, or its result."""
        words = _NEXT.get(job.next_address, "Read the release")
        return self.page("job.html", job.title, step=job.arguments[0], job=job, words=words, result=result)

    def _result(self, job: Job) -> dict[str, Any] | None:
        """Return what a release came to: its certificate, and what its ledger has left; None where it is not there."""
        with suppress(DiscreetError):
            release = self.workspace.release(job.form["out"])
            cost = {key: rounded_up(getattr(release.certificate, key), 6) for key in ("epsilon", "delta")}
            ledger = None
            if "ledger" in job.form:
                ledger = self.workspace.ledger()
            return {"release": release, "cost": cost, "ledger": ledger}
        return None

    async def job_facts(self, request: Request) -> Response:
        """Return the state of a command."""
        return JSONResponse(self._job_of(request.path_params["number"]).facts())

    async def job_page(self, request: Request) -> Response:
        """Return the page that a command wrote, which stands by itself."""
        job = self._job_of(request.path_params["number"])
        if not job.text:
            raise HTTPException(404)
        return HTMLResponse(job.text, headers={"Content-Security-Policy": EMBEDDED})

    async def cancel(self, request: Request) -> Response:
        """Interrupt a command."""
        interrupt(job := self._job_of(request.path_params["number"]))
        return self._to(job)

    def _to(self, job: Job) -> Response:
        return RedirectResponse(f"{self.access.base}/jobs/{job.number}", status_code=303)

    def _scratch_page(self) -> Path:
        """Return where a command may write a page that is gone when the server ends."""
        return self.scratch / f"{secrets.token_hex(8)}.html"


async def _fields(request: Request, most: int = _MOST_BYTES) -> dict[str, list[str]]:
    """Return the fields of a form, of at most so many bytes, each with all of its texts."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise HTTPException(413)
    return parse_qs(body.decode(errors="replace"), keep_blank_values=True)


async def _form(request: Request, most: int = _MOST_BYTES) -> dict[str, str]:
    """Return the fields of a form, each with one text."""
    return {key: texts[0].replace("\r\n", "\n") for key, texts in (await _fields(request, most)).items()}


def opener_text(address: str, token: str) -> str:
    """Return a page that leads to the server; it is for the owner's eyes alone."""
    refresh = f'<meta http-equiv="refresh" content="0;url={address}#{token}">'
    return f'<!DOCTYPE html><meta charset="utf-8"><title>discreet</title>{refresh}'
