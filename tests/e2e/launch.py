"""The command line with a directory that keeps few actors: `python launch.py LIVE_MAX VERB …`. Passivation in a real process."""

from __future__ import annotations

import sys

from actors.runtime import directory

if __name__ == "__main__":
    defaults = directory.Directory.__init__.__kwdefaults__
    assert "live_max" in (defaults or {}), "the directory's limit has another name"
    defaults["live_max"] = int(sys.argv.pop(1))
    from scripts.main import main

    sys.exit(main())
