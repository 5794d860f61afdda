"""`python -m scripts` is `replyledger`."""

from __future__ import annotations

import sys

from scripts.main import main

sys.exit(main())
