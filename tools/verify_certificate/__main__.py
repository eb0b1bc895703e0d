"""Recompute the privacy numbers of a certificate with a second program, which shares no code with the library.

    python tools/verify_certificate CERTIFICATE [--data FILE_OR_FOLDER]

Everything here was written from the theorems in ``docs/theory`` (T1 to T21), with mpmath and the standard library. A
stated number is accepted where it is at least the theorem's, without a tolerance. What a sum leaves out is added first.

Exit status: 0 every claim agrees; 1 something claims less than is true, or contradicts itself; 2 something cannot be
checked here, and nothing is wrong in what can be; 3 there is no certificate to read.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where the folder is run by its name

from verify_certificate.answers import CANNOT, LESS, WRONG
from verify_certificate.claims import verify


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("certificate", type=Path, help="a certificate, or a folder that has one")
    parser.add_argument("--data", type=Path, help="the released file, or the folder of the tables")
    asked = parser.parse_args(arguments)
    path = asked.certificate / "certificate.json" if asked.certificate.is_dir() else asked.certificate
    try:
        checks = verify(path.read_text(encoding="utf-8"), asked.data)
    except (OSError, ValueError, RecursionError) as error:
        sys.stderr.write(f"{path} cannot be read as a certificate ({type(error).__name__})\n")
        return 3
    sys.stdout.writelines(f"{check.status:24} {check.what:26} {check.detail}\n" for check in checks)
    answers = {check.status for check in checks}
    return 1 if answers & {LESS, WRONG} else 2 if CANNOT in answers or not answers else 0  # the worst decides


if __name__ == "__main__":
    sys.exit(main())
