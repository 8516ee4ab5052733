"""The workflows run what the repository says elsewhere, and every action is pinned."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
CI = (ROOT / ".github/workflows/ci.yml").read_text()
RELEASE = (ROOT / ".github/workflows/release.yml").read_text()
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def test_every_action_is_pinned_and_named() -> None:
    used = re.findall(r"uses: (?!\./)(.+)", CI + RELEASE)
    assert used and not [each for each in used if not PINNED.fullmatch(each)]
    versions = dict.fromkeys(re.findall(r"(\S+)@(\S+)", "\n".join(used)))
    assert len(versions) == len({name for name, _ in versions}), "one version of each"


def test_they_run_every_supported_python() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    listed = ", ".join(f'"{each}"' for each in supported)
    assert [text.count(f"python: [{listed}]") for text in (CI, RELEASE)] == [1, 1]


def test_a_release_has_every_target() -> None:
    source = (ROOT / "release/wheels.py").read_text()
    libcs = re.findall(r'\("(\w+)", "\w+linux_', source)
    machines = re.findall(r'"(\w+)"', source.partition("for machine in")[2].partition("\n")[0])
    expected = {f"{machine}-unknown-linux-{libc}" for machine in machines for libc in libcs}
    assert len(expected) == 4
    assert set(re.findall(r"^ +- (\S+-unknown-linux-\S+)$", RELEASE, re.MULTILINE)) == expected


def test_ci_is_the_same_command_as_elsewhere() -> None:
    script = re.search(r"sed -n '(.+)' \.ci/run", CI)
    assert script is not None
    found = subprocess.run(
        ["sed", "-n", script[1], ROOT / ".ci/run"], capture_output=True, text=True, check=True
    )
    assert found.stdout.split()[:2] == ["chromium", "wrk"]
    assert "      - run: bash .ci/run\n" in CI


def test_the_oldest_rust_builds_it_and_the_lints_are_of_one_version() -> None:
    promised = re.search(r'^rust-version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)
    assert promised is not None
    oldest = job(CI, "oldest-rust")
    assert f'RUSTUP_TOOLCHAIN: "{promised[1]}.0"' in oldest
    assert "cargo build --locked --workspace" in oldest
    assert re.search(r'RUSTUP_TOOLCHAIN: "\d+\.\d+\.\d+"', job(CI, "test"))
    assert "stable" not in CI + RELEASE
    [released] = re.findall(r'RUSTUP_TOOLCHAIN: "(.+)"', RELEASE)
    assert released in job(CI, "test"), "what is released was built by what was tested"


def job(workflow: str, name: str) -> str:
    """Return the lines of a job, without its name and the comments before the next one."""
    return re.split(r"\n  (?=[a-z#])", workflow.partition(f"\n  {name}:\n")[2])[0]


def test_nothing_is_published_that_was_not_tested() -> None:
    tests = "ci, build, test, test-sdist, test-lab"
    lab, publish = job(RELEASE, "publish-lab"), job(RELEASE, "publish")
    assert f"needs: [{tests}]" in lab
    assert f"needs: [{tests}, publish-lab]" in publish
    assert RELEASE.count("id-token: write") == 2
    assert "id-token: write" in lab and "id-token: write" in publish
    assert "    uses: ./.github/workflows/ci.yml\n" in job(RELEASE, "ci")
    assert "\n  workflow_call:" in CI


def test_each_distribution_has_an_environment_of_its_own() -> None:
    """The package index accepts one pending publisher per workflow and environment."""
    lab, publish = job(RELEASE, "publish-lab"), job(RELEASE, "publish")
    assert re.findall(r"environment: (\S+)", lab + publish) == ["pypi-lab", "pypi"]
    assert "find dist -type f ! -name 'bolide_lab-*.whl' -delete" in lab
    assert "find dist -type f -name 'bolide_lab-*' -delete" in publish
