"""`python -m scripts.demonstration` is `replyledger demo`."""

from __future__ import annotations

import sys

from scripts.main import main

if __name__ == "__main__":
    sys.exit(main(["demo", *sys.argv[1:]]))
