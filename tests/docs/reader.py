"""Does what a page asks its reader to do, in a folder that stands for the machine's root."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from docs.page import Command, File, is_printed, steps
from support.server import Server, clean_environ

BIN = Path(sys.executable).parent
FOLDERS = ("/srv/", "/run/", "/etc/")
"""Folders of the machine that pages name, which are below the reader's own folder here."""


class Reader:
    """Follows pages one after another: `here` is the current folder, `root` the machine's root.

    A server that a page starts runs until the page starts another one or ends, and then has to end
    with exit code 0 at Ctrl-C.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.here = root / "here"
        self.here.mkdir()
        (root / ".curlrc").write_text("silent\nshow-error\n")  # no meter, as on a terminal
        self.commands = 0
        self._server: Server | None = None
        self._replaced: dict[str, str] = {name: f"{root}{name}" for name in FOLDERS}

    def follow(self, path: Path) -> None:
        """Write each file and run each command of a page, and compare what the commands print."""
        for step in steps(path):
            if isinstance(step, File):
                self.write(step)
            else:
                self.run(step)
        self.stop()

    def write(self, file: File) -> None:
        """Write a file, relative to the current folder or below the root."""
        path = Path(self.local(file.name)) if file.name[0] == "/" else self.here / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.local(file.content))

    def run(self, command: Command) -> None:
        """Run a command, and compare what it prints."""
        self.commands += 1
        if command.line.startswith("bolide serve "):
            self.stop()
            printed = self._serve(command.line)
        else:
            done = subprocess.run(
                ["bash", "-c", f"set -o pipefail; {self.local(command.line)}"],
                cwd=self.here,
                env={
                    **clean_environ(),
                    "PATH": f"{BIN}:{os.environ['PATH']}",
                    "CURL_HOME": str(self.root),
                    # pytest deletes what earlier runs left, which are these tests' own here.
                    "PYTEST_DEBUG_TEMPROOT": str(self.root),
                },
                capture_output=True,
                text=True,
                timeout=25,
            )
            assert done.returncode == 0, (command.line, done)
            printed = done.stdout + done.stderr
        assert is_printed(command.output, printed), (command, printed)

    def serve_unit(self, name: str) -> None:
        """Start the server as systemd would start the unit that a page has written."""
        unit = Path(self.local(name)).read_text()
        values = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
        program, *arguments = shlex.split(values["ExecStart"])
        assert Path(program).samefile(BIN / "bolide") and arguments[0] == "serve"
        self._server = Server(arguments[1:], Path(values["WorkingDirectory"])).wait_ready()

    def replace(self, written: str, local: str) -> None:
        """Read `local` wherever a page says `written`."""
        self._replaced[written] = local

    def local(self, text: str) -> str:
        """Return a text of a page as it has to be here, where everything belongs to this user."""
        text = text.removeprefix("sudo ")
        for written, local in self._replaced.items():
            escaped = local.replace("\\", r"\\")
            text = re.sub(rf"(?<![\w.]){re.escape(written)}", escaped, text)
        return text

    def stop(self) -> None:
        """End the server as Ctrl-C does."""
        if self._server is not None:
            server, self._server = self._server, None
            try:
                server.signal(signal.SIGINT)
                assert server.wait() == 0, server.errors
            finally:
                server.close()

    def close(self) -> None:
        """End the server if a test failed while it ran."""
        if self._server is not None:
            self._server.close()

    def _serve(self, line: str) -> str:
        arguments = shlex.split(line)[2:]
        server = self._server = Server([*arguments, "--port", "0"], self.here)
        server.wait_ready()
        port = server.urls[0].rpartition(":")[2]
        self.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        return "".join(server.lines).replace(f"127.0.0.1:{port}", "127.0.0.1:8000")
