"""Draw the pictures of all results from the kept data files, in seconds, as SVG and PNG, for light and dark pages.

Run ``python experiments/draw.py OUT [NAME ...]``. The gallery of the documentation shows them.
"""

import sys
from pathlib import Path

from pictures import draw, pictures


def main() -> None:
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(pictures()):
        raise SystemExit(f"usage: python experiments/draw.py OUT [NAME ...]\nThe names are: {', '.join(pictures())}")
    print(f"written: {len(draw(Path(sys.argv[1]), sys.argv[2:]))} files")


if __name__ == "__main__":
    main()
