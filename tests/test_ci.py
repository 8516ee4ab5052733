"""What `.ci/run` does to a machine before the tests: said beforehand, and skipped when asked to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
FAKE = """\
#!/bin/sh
echo "$(basename "$0")${BOLIDE_SKIP_PACKAGES+ with it} $*" >> "$CALLS"
"""


@pytest.mark.parametrize(
    ("variables", "user", "installs"),
    [({}, 0, True), ({"BOLIDE_SKIP_PACKAGES": "1"}, 0, False), ({}, 1000, False)],
)
def test_packages_are_reported_and_can_be_skipped(
    variables: dict[str, str], user: int, installs: bool, tmp_path: Path
) -> None:
    for name in ("apt-get", "make", "id", "helm"):
        program = tmp_path / name
        program.write_text(FAKE if name != "id" else f"#!/bin/sh\necho {user}\n")
        program.chmod(0o755)
    calls = tmp_path / "calls"
    env = {"PATH": f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin", "CALLS": str(calls)}
    done = subprocess.run(
        [RUN], env={**env, **variables}, capture_output=True, text=True, check=True
    )
    packages = "chromium wrk apache2-utils nghttp2-client hey curl nginx-light haproxy caddy"
    packages += " postgresql strace"
    said = f"installing {packages} by apt-get (BOLIDE_SKIP_PACKAGES=1 skips it)\n"
    assert (done.stdout, done.stderr) == ("", said if installs else "")
    apt = ["apt-get -qq update", f"apt-get -qq install --yes --no-install-recommends {packages}"]
    assert calls.read_text().splitlines() == [*(apt if installs else []), "make test JOBS=1"]
