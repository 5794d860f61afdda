"""The folder that a demo leaves behind: configuration, log, a copy of the log, and what each process said."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from actors.ports import Credentials
from scripts.demonstration.errors import DemoFailed
from scripts.files import private_folder, write_private
from scripts.running.credentials import LoginFile

MARK = ".replyledger-demo"
"""A file that says: this folder was made by a demo, and the next one may replace it."""

CONFIG = """\
# Left by `replyledger demo`. The clock of that day is gone, so this log can be read, not continued.
state_dir = "state"
locale = "en"
clock = "{clock}"

[agents]
listen = "127.0.0.1:{agents}"

[http]
listen = "127.0.0.1:{http}"

[accounts.main]
channel = "weixin"
base_url = "{weixin}"
"""


class Folder:
    """Where things lie."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.config = self.path / "replyledger.toml"
        self.second_config = self.path / "second.toml"
        self.state = self.path / "state"
        self.log = self.state / "log.sqlite"
        self.copy = self.path / "copy.sqlite"
        self.processes = self.path / "processes"

    def make(self) -> None:
        """Make it anew. Raises DemoFailed for a folder that no demo has made."""
        if self.path.exists() and not self.path.is_dir():
            raise DemoFailed(f"{self.path} is not a folder")
        if self.path.exists():
            if not (self.path / MARK).is_file() and any(self.path.iterdir()):
                raise DemoFailed(f"{self.path} was not made by a demo; name another folder with --keep")
            shutil.rmtree(self.path)
        private_folder(self.processes)
        (self.path / MARK).touch()

    def configure(self, *, clock: str, weixin: str, ports: tuple[int, int], second_ports: tuple[int, int]) -> None:
        """Write the configurations of the two instances, which differ in where they listen: (agents, HTTP)."""
        for path, (agents, http) in ((self.config, ports), (self.second_config, second_ports)):
            text = CONFIG.format(clock=clock, weixin=weixin, agents=agents, http=http)
            path.write_text(text, encoding="utf-8")

    def log_in(self, credentials: Credentials) -> None:
        """Keep a login, as `replyledger login` does."""
        LoginFile(self.state, "main").write(credentials)

    def new_login(self, credentials: Credentials) -> Path:
        """A login in a file of its own, for `replyledger login weixin --import`."""
        path = self.path / "new-login.json"
        found = {"token": credentials.token, "baseUrl": credentials.base_url, "userId": credentials.user_id}
        write_private(path, msgspec.json.encode(found))
        return path
