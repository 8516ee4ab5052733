"""The image and the services: what they run, in a folder that stands for the image's root."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import yaml

import support.nginx
from deploy.database import postgresql, programs
from deploy.dockerfile import Stage, stages
from deploy.files import CONTAINER, compose, seconds
from support.client import Connection
from support.server import Server, as_address, clean_environ

pytestmark = [pytest.mark.slow, pytest.mark.tools]

CLIENTS, ITEMS = 4, 25
SETPRIV = ("setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", "--no-new-privs")
READ_ANYWHERE = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
"""Our interpreter may be in a folder that only root reads."""
needs_postgresql = pytest.mark.skipif(programs() is None, reason="needs postgresql")
needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")


class Image:
    """What the Dockerfile makes, below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        self.stage = stages()[-1]
        for stage in stages():
            self._build(stage)
        self.environ = {name: self.local(value) for name, value in self.stage.environment().items()}

    def local(self, text: str) -> str:
        """Return a text with the image's folders below the root."""
        for folder in ("/venv", "/srv"):
            text = text.replace(folder, f"{self.root}{folder}")
        return text

    @property
    def folder(self) -> Path:
        """The folder in which the command runs."""
        return Path(self.local(self.stage.last("WORKDIR")))

    def _build(self, stage: Stage) -> None:
        for name, value in stage.instructions:
            if name == "RUN":
                self._run(value)
            elif name == "COPY" and not value.startswith("--from="):
                *sources, target = value.split()
                folder = Path(self.local(target))
                folder.mkdir(parents=True, exist_ok=True)
                for source in sources:
                    shutil.copy(CONTAINER / source, folder)

    def _run(self, line: str) -> None:
        environ = {**clean_environ(), "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(["sh", "-euc", self.local(line)], env=environ, check=True)
        if line.startswith("python -m venv "):
            self._lend_packages()

    def _lend_packages(self) -> None:
        """Let the environment have what is installed here, so that pip need not fetch it."""
        venv = self.root / "venv"
        (libraries,) = venv.glob("lib/python*/site-packages")
        (libraries / "ours.pth").write_text(f"import site; site.addsitedir({purelib()!r})\n")
        script = venv / "bin" / "bolide"
        script.write_text(f"#!{venv}/bin/python\nfrom bolide.cli import main\nmain()\n")
        script.chmod(0o755)


class Container(Server):
    """A container of the image, as far as its process is concerned."""

    def __init__(self, image: Image, env: dict[str, str]) -> None:
        self.image = image
        if os.geteuid() == 0 and shutil.which("setpriv"):
            user, group = image.stage.last("USER").split(":")
            assert SETPRIV[1:3] == (f"--reuid={user}", f"--regid={group}")
            self.within = (*SETPRIV, *READ_ANYWHERE)
        environ = {**image.environ, "PORT": "0", "BOLIDE_MANAGEMENT": "127.0.0.1:0", **env}
        super().__init__(image.stage.command()[2:], image.folder, environ)
        self.management = self.wait_line(r"management on http://(\S+)$")[1]

    def is_healthy(self) -> bool:
        """Return what the image's check of health finds."""
        words = self.image.stage.health_command()
        environ = {**self.image.environ, "BOLIDE_MANAGEMENT": self.management}
        done = subprocess.run(
            [self.image.root / "venv/bin" / words[0], *words[1:]],
            cwd=self.image.folder,
            env=environ,
            capture_output=True,
            timeout=seconds("30s"),
            check=False,
        )
        assert done.returncode in (0, 3), done
        return done.returncode == 0


def purelib() -> str:
    return sysconfig.get_path("purelib")


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Return the image."""
    with tempfile.TemporaryDirectory(prefix="bolide-") as folder:
        yield Image(Path(folder))


@pytest.fixture(scope="module")
def database() -> Iterator[dict[str, str]]:
    """Return a database."""
    with postgresql() as variables:
        yield variables


def test_the_image_runs_without_a_shell_and_without_rights() -> None:
    image = stages()[-1]
    assert image.command()[:2] == ["bolide", "serve"]
    assert image.health_command()[:2] == ["bolide", "status"]
    user, group = image.last("USER").split(":")
    assert int(user) > 0 and int(group) > 0
    assert signal.Signals[image.last("STOPSIGNAL")] is signal.SIGTERM
    assert not any(name in ("RUN", "ADD", "ENTRYPOINT") for name, _ in image.instructions)
    kept = (CONTAINER / ".dockerignore").read_text().splitlines()
    copied = {
        source
        for stage in stages()
        for name, value in stage.instructions
        if name == "COPY" and not value.startswith("--from=")
        for source in value.split()[:-1]
    }
    assert kept[1] == "*" and {line[1:] for line in kept[2:]} == copied


def test_the_services_are_what_compose_expects(tmp_path: Path) -> None:
    checked = ("--builtin-schema", "vendor.compose-spec", str(CONTAINER / "compose.yaml"))
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *checked],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    services = compose()
    assert "ports" not in services["shop"] and "ports" not in services["db"]
    used = [name for each in services.values() for name in each["networks"]]
    assert sorted(used) == ["back", "back", "front", "front"]
    whole = yaml.safe_load((CONTAINER / "compose.yaml").read_text())
    (pool,) = whole["networks"]["front"]["ipam"]["config"]
    fixed = ip_address(services["shop"]["networks"]["front"]["ipv4_address"])
    assert fixed in ip_network(pool["subnet"]) and fixed not in ip_network(pool["ip_range"])
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source == "data" or (CONTAINER / source).is_file()


@needs_postgresql
def test_a_container_is_healthy_when_it_serves(image: Image, database: dict[str, str]) -> None:
    unreachable = Container(image, {**database, "PGHOST": "/nowhere"})
    try:
        assert not unreachable.is_healthy()
    finally:
        unreachable.close()
    container = Container(image, database)
    try:
        container.wait_ready()
        assert container.is_healthy()
        status = Path(f"/proc/{container.workers()[0]}/status").read_text()
        if os.geteuid() == 0:
            assert "Uid:\t10001\t10001\t10001\t10001" in status
            assert "NoNewPrivs:\t1" in status
        with container.connect() as client:
            assert client.post("/items", b'{"name": "anvil"}').status == 201
            assert client.post("/items", b'{"name": "a\\u0000b"}').status == 422
            assert client.post("/items", b'{"name": "' + b"a" * 201 + b'"}').status == 422
            assert client.post("/items", b'{"name": "\\ud800"}').status in (400, 422)
            assert client.get(f"/items/{10**30}").status == 404
        container.signal(signal.Signals[image.stage.last("STOPSIGNAL")])
        assert container.wait() == 0
    finally:
        container.close()


@needs_postgresql
@needs_nginx
def test_the_services_work_together(image: Image, database: dict[str, str], tmp_path: Path) -> None:
    """The database has the items whose numbers clients got, and each once."""
    environ = {**compose()["shop"]["environment"], **database}
    environ["BOLIDE_TRUSTED_PROXIES"] = "127.0.0.1"
    container = Container(image, environ)
    try:
        container.wait_ready()
        with nginx(tmp_path, container) as address:
            added = shop(address)
            with closing(connected(database)) as connection:
                found = connection.execute("SELECT id, name FROM item WHERE name LIKE 'c%'")
                assert dict(found.fetchall()) == added
                assert len(added) == CLIENTS * ITEMS
            with Connection(address) as client:
                number, name = next(iter(added.items()))
                assert client.get(f"/items/{number}").json() == {"name": name}
        container.signal(signal.SIGTERM)
        assert container.wait() == 0
    finally:
        container.close()


def connected(database: dict[str, str]) -> object:
    import psycopg

    return psycopg.connect(
        host=database["PGHOST"], user=database["PGUSER"], dbname=database["PGDATABASE"]
    )


def shop(address: str) -> dict[int, str]:
    """Add items from several clients at once; return the numbers that they got."""
    added: dict[int, str] = {}
    wrong: list[object] = []

    def add(number: int) -> None:
        with Connection(address) as client:
            for item in range(ITEMS):
                name = f"c{number}-{item}"
                reply = client.post("/items", json.dumps({"name": name}).encode())
                if reply.status == 201:
                    added[reply.json()["id"]] = name
                else:
                    wrong.append(reply)

    clients = [threading.Thread(target=add, args=(number,)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert not wrong
    return added


@contextmanager
def nginx(folder: Path, container: Container) -> Iterator[str]:
    """Run nginx with the configuration of the services; yield its socket."""
    host, port = as_address(container.urls[0])
    assert container.urls[0].startswith("http://0.0.0.0:") and host == "0.0.0.0"  # noqa: S104
    with tempfile.TemporaryDirectory(prefix="bolide-") as name:
        site = (CONTAINER / "nginx.conf").read_text()
        for written, local in (
            ("server shop:8000 ", f"server 127.0.0.1:{port} "),
            ("listen 8080;", f"listen unix:{name}/socket;"),
        ):
            assert written in site
            site = site.replace(written, local)
        (folder / "shop.conf").write_text(site)
        with support.nginx.nginx(folder, folder / "shop.conf"):
            assert stat.S_ISSOCK(os.stat(f"{name}/socket").st_mode)
            yield f"{name}/socket"
