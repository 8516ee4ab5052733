"""The command: what a user types by mistake, and what the command says to it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.server import Start, command

pytestmark = pytest.mark.slow

MISTAKES = [
    (["serve", "nothing_here"], "no module named 'nothing_here' in "),
    (["serve", "basic:nothing"], "basic has no attribute 'nothing'; it has 'app': `bolide ser"),
    (["serve", "shapes:holder.inner.none"], "shapes:holder.inner has no attribute 'none'"),
    (["serve", "shapes"], "shapes has no attribute 'app'; it has 'api': `bolide serve s"),
    (["serve", "shapes:holder"], "shapes:holder is neither a bolide.App nor an ASGI or WSGI a"),
    (["serve", "shapes:App"], "shapes:App is the class App, not an application; name an insta"),
    (["serve", "shapes:create"], "shapes:create can be called without arguments, so it is not"),
    (["serve", "shapes:api", "--factory"], "shapes:api is a bolide.web.app.App, not a factory; "),
    (["serve", "shapes:api", "--interface", "asgi"], "shapes:api is a bolide.web.app.App, not wh"),
    (["serve", "shapes:api", "--root-path", "/a"], "shapes:api is a bolide.App, which takes no "),
    (["serve", "basic", "--root-path", "a/"], "--root-path: 'a/' is not a path prefix; give one l"),
    (
        ["serve", "basic", "--root-path", "/shop/"],
        "--root-path: '/shop/' ends in a slash; give it without the final /: /shop\n",
    ),
    (["serve", "nothing.py"], "no file nothing.py in "),
    (["serve", ":app"], "':app' names no module; give MODULE:APP or FILE.py:APP"),
    (["serve", "basic", "--port", "http"], "--port: 'http' is not a whole number; give 0 to 65535"),
    (
        ["serve", "basic", "--loop", "trio"],
        "--loop: 'trio' is not one of the choices; give asyncio",
    ),
    (
        ["serve", "basic", "--bind", "::1:80"],
        "--bind: '::1:80' needs brackets around the IPv6 address; give [IPV6]:PORT\n",
    ),
    (
        ["serve", "basic", "--bind", "8000"],
        "--bind: '8000' is not an address; give HOST:PORT, [IPV6]:PORT, unix:PATH or fd:N\n",
    ),
    (
        ["serve", "wsgi_plain", "--interface", "asgi"],
        "wsgi_plain:app is the function app(environ, start_response), which cannot be called with "
        "3 arguments as --interface asgi says; leave --interface out\n",
    ),
    (["serve", "basic.app"], "no module named 'basic.app' in "),
    (
        ["serve", "basic", "--port", "0", "--access-log"],
        "Option '--access-log' requires an argument. Give a file, or - for standard output.\n",
    ),
    (
        ["serve", "basic", "--access-log", "--port", "0"],
        "Option '--access-log' requires an argument. Give a file, or - for standard output.\n",
    ),
    (["serve", "basic", "--port", "--no-factory"], "Option '--port' requires an argument.\n"),
    (["serve", "basic", "--prot", "1"], "No such option '--prot'"),
    (["serve", "basic", "-w", "4"], "No such option '-w': use --workers\n"),
    (["serve", "basic", "-b:8000"], "No such option '-b': use --bind\n"),
    (
        ["serve", "basic", "--ssl-keyfile", "key"],
        "No such option '--ssl-keyfile': use --key\n",
    ),
    (["serve", "basic", "--access-log", "/none/x"], "cannot write the access log /none/x: No such"),
    (
        ["serve", "basic", "--config", "none.toml"],
        "cannot read the configuration file none.toml: N",
    ),
    (
        ["serve", "basic", "--uds", "/none/x/y"],
        "cannot listen on unix:/none/x/y: the folder /none/x does not exist; create it\n",
    ),
    (
        ["serve", "basic", "--host", "127.0.0.1:80"],
        "--host: '127.0.0.1:80' includes a port; give the host 127.0.0.1 and the port 80\n",
    ),
    (
        ["serve", "basic", "--path-limit", "/upload", "body_bytes_max=1G"],
        "Got unexpected extra argument (body_bytes_max=1G); quote it: --path-limit '/upload "
        "body_bytes_max=1G'\n",
    ),
    (
        ["serve", "--path-limit", "/upload", "body_bytes_max=1G", "basic"],
        "Got unexpected extra argument (basic); quote it: --path-limit '/upload body_bytes_max=1G'",
    ),
    (["serve", "basic", "-p", "8000"], "No such option '-p': use --port, or --pid-file for"),
    (
        ["serve", "basic", "8001"],
        "Got unexpected extra argument (8001). The address is given by --port 8001, --host, --bind"
        " or --uds.\n",
    ),
    (["serve", "."], "'.' is a folder; give the application's file in it, such as main.py:app\n"),
    (
        ["serve", "basic", "--host", "192.0.2.1"],
        "cannot listen on 192.0.2.1:0: no network interfac",
    ),
    (
        ["serve"],
        "Missing argument 'TARGET'. Give one: name the application, for example `bolide serve "
        "main:app` for `app` in main.py.\n",
    ),
    (
        ["race", "report"],
        "Missing argument 'DIR'. Give the folder of a race, which `bolide race` names at its end",
    ),
    (["race", "compare", "a"], "Missing argument 'B'. Give two: each is the folder of a race, whi"),
    (["swerve"], "No such command 'swerve'; did you mean `bolide serve`?\n"),
    (["dokter"], "No such command 'dokter'; did you mean `bolide doctor`?\n"),
    (["frob"], "No such command 'frob'; `bolide --help` lists them\n"),
    (["main:app"], "No such command 'main:app'; did you mean `bolide serve main:app`?\n"),
    (["basic", "--port", "1"], "No such command 'basic'; did you mean `bolide serve basic --port"),
    (["run", "main:app"], "No such command 'run'; did you mean `bolide serve main:app`?\n"),
    (["run"], "No such command 'run'; name the application, for example `bolide serve main:app` "),
    (["http://h/"], "No such command 'http://h/'; did you mean `bolide load http://h/`?\n"),
]


@pytest.mark.parametrize(("arguments", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_mistake_is_one_line(arguments: list[str], says: str, applications: Path) -> None:
    says_where = {"--bind", "--uds", "--port"} & {*arguments}
    needs_port = arguments[0] == "serve" and len(arguments) > 1 and not says_where
    port = ["--port", "0"] if needs_port else []
    code, out, errors = command(*arguments, *port, cwd=applications)
    assert (code, out) == (2, "")
    assert errors.startswith(f"bolide: error: {says}")
    assert errors.count("\n") == 1


def test_an_attribute_after_a_dot_and_a_package_without_an_application(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / "shop/main.py").write_text("from bolide import App\napp = App()\n")
    _, _, errors = command("serve", "shop", "--port", "0", cwd=tmp_path)
    assert errors == "bolide: error: shop has no attribute 'app'; did you mean shop.main?\n"
    (tmp_path / "site_app.py").write_text("from bolide import App\napp = App()\n")
    _, _, errors = command("serve", "site_app.app", "--port", "0", cwd=tmp_path)
    assert errors.endswith("packages; did you mean site_app:app?\n")


def test_a_table_in_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bolide.toml").write_text("[server]\nworkers = 2\n")
    _, _, errors = command("serve", "shop", cwd=tmp_path)
    mistake = "bolide.toml has the table [server]; write its options at the top level"
    assert errors == f"bolide: error: {mistake}, without [server]\n"


def test_exception_in_the_module_shows_the_users_frames(applications: Path) -> None:
    code, _, errors = command("serve", "raises", "--port", "0", cwd=applications)
    assert code == 2
    lines = errors.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "raises.py" in lines[1]
    assert lines[-1] == "bolide: error: importing raises failed: ValueError: no secrets here"
    assert "importlib" not in errors and "importer.py" not in errors


def test_missing_dependency_of_the_module_shows_where(tmp_path: Path) -> None:
    (tmp_path / "site.d").mkdir()
    (tmp_path / "needy.py").write_text("import not_installed_at_all\n")
    code, _, errors = command("serve", "needy", "--port", "0", cwd=tmp_path)
    assert code == 2
    assert 'needy.py", line 1' in errors
    assert errors.splitlines()[-1].endswith(
        f"No module named 'not_installed_at_all' (Bolide runs in {sys.prefix}; install it there)"
    )


def test_syntax_error_shows_the_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("app = (\n")
    code, _, errors = command("serve", "broken.py", "--port", "0", cwd=tmp_path)
    assert code == 2
    assert 'broken.py", line 1' in errors
    assert "SyntaxError" in errors.splitlines()[-1]


def test_module_that_exits_does_not_restart_for_ever(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit('bye')\n")
    code, _, errors = command("serve", "leaves", "--port", "0", cwd=tmp_path)
    assert code == 2
    assert errors.splitlines()[-1].endswith("importing leaves failed: SystemExit: bye")


def test_worker_that_dies_at_its_start_is_reported(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    code, _, errors = command("serve", "dies", "--port", "0", cwd=tmp_path)
    assert code == 3
    assert errors == "bolide: error: the worker ended while it started: signal SIGKILL\n"


def test_run_inside_a_worker_is_refused(applications: Path) -> None:
    code, _, errors = command("serve", "calls_run.py", "--port", "0", cwd=applications)
    assert code == 2
    assert "put the call under `if __name__" in errors.splitlines()[-1]


@pytest.mark.parametrize(
    "target", ["basic", "basic:app", "basic.py", "basic.py:app", "shapes:holder.inner.app"]
)
def test_target(start: Start, target: str) -> None:
    server = start(target)
    assert any(f"serving {target} on http://127.0.0.1:" in line for line in server.lines)


def test_options_from_a_file_and_variables(start: Start, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("from bolide import App\napp = App()\n")
    (tmp_path / "bolide.toml").write_text('workers = 3\nhost = "127.0.0.2"\n')
    server = start("main", cwd=tmp_path, env={"BOLIDE_WORKERS": "2"})
    assert server.urls[0].startswith("http://127.0.0.2:")
    assert len(server.workers()) == 2


@pytest.mark.parametrize("form", ["combined", "json"])
def test_access_log(start: Start, tmp_path: Path, form: str) -> None:
    path = tmp_path / "access.log"
    server = start("basic", "--access-log", str(path), "--access-log-format", form)
    with server.connect() as client:
        assert client.get("/").status == client.get("/pid?a=b").status == 200
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert "/pid?a=b" in lines[1]
    assert all(json.loads(line)["status"] == 200 for line in lines if form == "json")


def test_ceiling_responds_until_its_time_is_over(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
        code, _, errors = command("ceiling", "--port", port, cwd=tmp_path)
        assert code == 2
        assert f"bolide: error: cannot listen on 127.0.0.1:{port}: " in errors
    code, _, errors = command("ceiling", "--port", port, "--duration", "100ms", cwd=tmp_path)
    assert code == 0
    assert errors.endswith("responded to 0 requests\n")


@pytest.mark.parametrize("given", [("--duration", "1000h"), ("--port", "70k"), ("--size", "2G")])
def test_ceiling_refuses_what_no_machine_has(tmp_path: Path, given: tuple[str, str]) -> None:
    code, _, errors = command("ceiling", *given, cwd=tmp_path)
    assert code == 2
    assert errors.startswith("bolide: error: Invalid value for ")
    assert f"'{given[0]}': '{given[1]}' is " in errors
    assert errors.count("\n") == 1


def test_ceiling_names_what_is_wrong_with_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for given, said in (
        (["--key", "k.pem"], "--key is the key of a certificate; give --certificate as well"),
        (["--certificate", "c.pem"], "cannot read c.pem: No such file or directory"),
        (
            ["--certificate", "no.pem", "--port", port],
            f"cannot listen on 127.0.0.1:{port}: the certificate or its key cannot be used: "
            "it has no certificate in PEM",
        ),
    ):
        code, _, errors = command("ceiling", *given, cwd=tmp_path)
        assert (code, errors.splitlines()[-1]) == (2, f"bolide: error: {said}")


def test_ceiling_goes_on_after_a_stop_and_ends_by_an_interrupt_with_its_count(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "bolide", "ceiling", "--port", str(port)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        for responded in (1, 2):
            assert ceiling_responds(port)
            if responded == 1:
                process.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
                process.send_signal(signal.SIGCONT)
                os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    finally:
        signal.signal(signal.SIGINT, before)
        process.kill()
        process.wait()
    assert (process.returncode, errors.splitlines()[1:]) == (0, ["responded to 2 requests"])


def ceiling_responds(port: int) -> bool:
    """Ask once it listens; return whether it responded."""
    deadline = time.monotonic() + 10
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
                return client.recv(4096).startswith(b"HTTP/1.1 200 ")
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def test_version_and_help(tmp_path: Path) -> None:
    import bolide

    assert command("--version", cwd=tmp_path) == (0, f"bolide {bolide.__version__}\n", "")
    code, out, errors = command("serve", "--help", cwd=tmp_path)
    assert (code, errors) == (0, "")
    for group in ("Listening:", "Processes:", "Limits:", "Timeouts:"):
        assert f"\n{group}\n" in out
    assert "--no-server-header" in out


def test_variables_of_other_servers_get_a_line(start: Start) -> None:
    server = start("basic", env={"WEB_CONCURRENCY": "3"})
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    line = "INFO  bolide: WEB_CONCURRENCY is not read: use --workers or BOLIDE_WORKERS\n"
    assert server.errors.count(line) == 1


@pytest.mark.parametrize("given", ["--help", "--version", "serve --help"])
def test_help_that_cannot_be_printed_is_one_line(given: str, tmp_path: Path) -> None:
    line = f"{sys.executable} -m bolide {given} >/dev/full"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=20
    )
    error = "bolide: error: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (3, error)


@pytest.mark.parametrize(("given", "code"), [("--nope", 2), ("ceiling --port {} -d 10ms", 0)])
def test_messages_that_cannot_be_written_change_no_exit_code(
    given: str, code: int, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    line = f"{sys.executable} -m bolide {given.format(port)} 2>/dev/full"
    assert subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, timeout=20).returncode == code


@pytest.mark.parametrize("arguments", [["--help"], ["race", "--help"]])
def test_no_line_of_help_is_cut(arguments: list[str], tmp_path: Path) -> None:
    code, output, _ = command(*arguments, cwd=tmp_path, env={"COLUMNS": "80"})
    assert code == 0
    described = output.partition("\nCommands:\n")[2].splitlines()
    assert described and not [line for line in described if line.endswith("...")]
