"""How packages of the distribution are installed: no question, and no service that starts.

Fake programs stand in for apt-get, apt-cache and systemctl.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.lab.plan import packages
from bolide.lab.plan.environments import SetupError

APT_GET = """\
echo "apt-get $* ($DEBIAN_FRONTEND)" >> "$CALLS"
[ "$1" = install ] || exit 0
[ ! -x "$ROOT/policy-rc.d" ] || "$ROOT/policy-rc.d"
echo "policy $?" >> "$CALLS"
ln -s /nowhere "$ROOT/system/multi-user.target.wants/web.service"
ln -s /nowhere "$ROOT/rc2.d/S01web"
exit "${APT_STATUS:-0}"
"""
SYSTEMCTL = """\
echo "systemctl $*" >> "$CALLS"
rm "$ROOT/system/multi-user.target.wants/$2"
"""
UPDATE_RC = """\
echo "update-rc.d $*" >> "$CALLS"
mv "$ROOT/rc2.d/S01$1" "$ROOT/rc2.d/K01$1"
"""
INSTALL = (
    "apt-get install --yes -o Dpkg::Options::=--force-confold --no-install-recommends a b"
    " (noninteractive)"
)


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("programs", "system/multi-user.target.wants", "rc2.d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "system/multi-user.target.wants/earlier.service").symlink_to("/nowhere")
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("ROOT", str(tmp_path))
    monkeypatch.setattr(packages, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(packages, "ENABLED", tmp_path / "system")
    monkeypatch.setattr(packages, "RUN_LEVELS", tmp_path / "rc2.d")
    program(tmp_path, "apt-get", APT_GET)
    program(tmp_path, "apt-cache", '[ "$3" != gone ]')
    program(tmp_path, "systemctl", SYSTEMCTL)
    program(tmp_path, "update-rc.d", UPDATE_RC)


def program(tmp_path: Path, name: str, script: str) -> None:
    path = tmp_path / "programs" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def test_no_service_is_started_or_stays_enabled(tmp_path: Path) -> None:
    said: list[str] = []
    packages.install(["a", "b"], said.append)
    assert calls(tmp_path) == [
        "apt-get update (noninteractive)",
        INSTALL,
        "policy 101",
        "systemctl disable web.service",
        "update-rc.d web disable",
    ]
    assert said == ["web.service: a package enabled this service, which is disabled again"]
    assert not (tmp_path / "policy-rc.d").exists()
    left = [each.name for each in (tmp_path / "system/multi-user.target.wants").iterdir()]
    assert left == ["earlier.service"]
    assert [each.name for each in (tmp_path / "rc2.d").iterdir()] == ["K01web"]


def test_a_policy_of_the_system_stays(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    packages.install(["a", "b"], lambda text: None)
    assert "policy 104" in calls(tmp_path)
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_a_failed_installation_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APT_STATUS", "100")
    with pytest.raises(SetupError, match=r"apt-get install failed; it needs root \(sudo\)"):
        packages.install(["a", "b"], lambda text: None)
    assert not (tmp_path / "policy-rc.d").exists()
    assert calls(tmp_path)[-1] == "update-rc.d web disable"


def test_a_service_that_cannot_be_disabled_is_reported(tmp_path: Path) -> None:
    program(tmp_path, "systemctl", "exit 1")
    said: list[str] = []
    packages.install(["a", "b"], said.append)
    assert said == ["web.service: a package enabled this service, which is enabled; disable it"]


def test_an_unknown_package_is_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    packages.install(["a", "gone", "b"], said.append)
    assert said[0] == "gone: this distribution has no package of that name"
    assert INSTALL in calls(tmp_path)


def test_without_a_known_package_nothing_is_installed(tmp_path: Path) -> None:
    packages.install(["gone"], lambda text: None)
    assert calls(tmp_path) == ["apt-get update (noninteractive)"]
