"""Compile every proof from scratch, ask what it assumes, and see that the wrong variants in ``negative/`` fail.

``python proofs/build.py`` needs Coq and the Mathematical Components library: on Debian,
``apt-get install coq libcoq-mathcomp-algebra``. It writes nothing into the repository.

A file of ``negative/`` is a proof with one wrong line. Below that line stands the right one, in ``(* right: ... *)``.
Its first comment says what is wrong, and on a line of its own, ``fails with: ...``, what Coq says about it. The file
must fail with these words, at the wrong line or below it, and must compile with the right line.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path

PROOFS = Path(__file__).parent
PACKAGES = "coq libcoq-mathcomp-algebra"
SECONDS = 600
"""The longest that one file may take."""
CLOSED = "Closed under the global context"
RIGHT = re.compile(r"^(?P<wrong>.*)\n[ ]*\(\* right: (?P<right>.*?) \*\)$", re.MULTILINE)
FAILS = re.compile(r"fails with: (?P<words>.*?)\s*(?:\*\))?$", re.MULTILINE)
COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
THEOREM = re.compile(r"^\s*Theorem\s+([\w']+)", re.MULTILINE)
FORBIDDEN = re.compile(r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|bypass_check|Unset Guard Checking)\b")


def without_comments(text: str) -> str:
    return COMMENT.sub("", text)


def requirements(text: str) -> list[str]:
    """Return the files of this folder that a file imports."""
    named = re.findall(r"From Discreet Require (?:Import|Export)?([^.]*)\.", without_comments(text))
    return [name for names in named for name in names.split()]


def theorems(text: str) -> list[str]:
    """Return the names of a file's theorems."""
    return THEOREM.findall(without_comments(text))


def variants(text: str) -> tuple[str, int, str]:
    """Return the right file, the number of the wrong line, and what Coq says about it."""
    found = list(RIGHT.finditer(text))
    if len(found) != 1:
        raise ValueError("has no single line (* right: ... *) below a wrong one")
    (change,) = found
    words = FAILS.search(text[: text.index("*)") + 2])
    if words is None:
        raise ValueError("does not say in its first comment what it fails with")
    right = text[: change.start()] + change["right"] + "\n" + text[change.end() :]
    return right, text.count("\n", 0, change.start()) + 1, " ".join(words["words"].split())


class Build:
    """A folder in which the files are compiled, and what has gone wrong so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors: list[str] = []

    def coqc(self, path: Path) -> tuple[int, str, float]:
        """Compile a file; return the exit status, what Coq printed, and the seconds it took."""
        started = time.monotonic()
        command = ["coqc", "-q", "-w", "none", "-R", str(self.folder), "Discreet", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return -1, f"took more than {SECONDS} seconds", SECONDS
        return done.returncode, done.stdout + done.stderr, time.monotonic() - started

    def report(self, name: str, seconds: float, told: str, error: str = "") -> None:
        print(f"{name:<36}{seconds:6.1f} s  {error or told}", flush=True)
        if error:
            self.errors.append(f"{name}: {error}")

    def compile(self, name: str) -> bool:
        status, output, seconds = self.coqc(self.folder / f"{name}.v")
        self.report(f"{name}.v", seconds, "compiles", "" if status == 0 else f"does not compile\n{output}")
        return status == 0

    def assumptions(self, names: dict[str, list[str]]) -> None:
        """Ask what each theorem assumes: first of all theorems together, and of each one where that is not nothing."""
        every = [f"{file}.{theorem}" for file, named in names.items() for theorem in named]
        imports = f"From Discreet Require {' '.join(names)}.\n"
        together = f"Definition together := ({', '.join(f'@{name}' for name in every)}).\nPrint Assumptions together.\n"
        path = self.folder / "assumptions" / "Assumptions.v"
        path.parent.mkdir(exist_ok=True)
        path.write_text(imports + together, encoding="utf-8")
        status, output, seconds = self.coqc(path)
        if status == 0 and output.strip() == CLOSED:
            self.report("what they assume", seconds, f"{len(every)} theorems, each closed under the global context")
            return
        for name in every:
            path.write_text(f"{imports}Print Assumptions {name}.\n", encoding="utf-8")
            status, output, seconds = self.coqc(path)
            error = "" if status == 0 and output.strip() == CLOSED else f"assumes something\n{output}"
            self.report(name, seconds, "closed under the global context", error)

    def negative(self, path: Path) -> None:
        """Compile a wrong variant, which must fail as it states, and the same put right, which must not."""
        text = path.read_text(encoding="utf-8")
        try:
            right, line, words = variants(text)
        except ValueError as unreadable:
            self.report(f"negative/{path.name}", 0, "", str(unreadable))
            return
        folder = self.folder / "variants"
        folder.mkdir(exist_ok=True)
        wrong_file, right_file = folder / f"Wrong_{path.name}", folder / f"Right_{path.name}"
        wrong_file.write_text(text, encoding="utf-8")
        right_file.write_text(right, encoding="utf-8")
        status, output, seconds = self.coqc(wrong_file)
        at = re.search(r", line (\d+),", output)
        error = ""
        if status == 0:
            error = "compiles, though it is wrong"
        elif words not in " ".join(output.split()) or at is None or int(at[1]) < line:
            error = f"fails for another reason than it states\n{output}"
        else:
            status, output, more = self.coqc(right_file)
            seconds += more
            if status != 0:
                error = f"does not compile once it is put right\n{output}"
        self.report(f"negative/{path.name}", seconds, "fails as it states, and compiles once it is put right", error)

    def compile_all(self, texts: dict[str, str], pool: ThreadPoolExecutor) -> None:
        """Compile all proofs, each after those that it imports, until one does not compile."""
        order = TopologicalSorter({name: requirements(text) for name, text in texts.items()})
        order.prepare()
        running: dict[str, Future[bool]] = {}
        while order.is_active() and not self.errors:
            running |= {name: pool.submit(self.compile, name) for name in order.get_ready()}
            wait(running.values(), return_when=FIRST_COMPLETED)
            for name in [name for name, future in running.items() if future.done()]:
                if running.pop(name).result():
                    order.done(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="files compiled at once")
    jobs = parser.parse_args().jobs
    if shutil.which("coqc") is None:
        print(f"Coq is not installed. On Debian, run apt-get install {PACKAGES}.", file=sys.stderr)
        return 1
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PROOFS.glob("*.v"))}
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(jobs) as pool:
        build = Build(Path(temporary))
        for name, text in texts.items():
            (build.folder / f"{name}.v").write_text(text, encoding="utf-8")
            if words := FORBIDDEN.findall(without_comments(text)):
                build.errors.append(f"{name}.v: {', '.join(words)} must not stand in a proof")
        build.compile_all(texts, pool)
        if not build.errors:
            negatives = pool.map(build.negative, sorted((PROOFS / "negative").glob("*.v")))  # beside what follows
            build.assumptions({name: named for name, text in texts.items() if (named := theorems(text))})
            list(negatives)
    for error in build.errors:
        print(error, file=sys.stderr)
    return 1 if build.errors else 0


if __name__ == "__main__":
    sys.exit(main())
