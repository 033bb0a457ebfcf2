"""The pull request that proposes a new image, made by a real git against a stand-in for GitHub's own command."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.repositories import Repository

ROOT = Path(__file__).parents[2]
NEW = f"ghcr.io/me/evenbench@sha256:{'1' * 64}"
GH = '#!/bin/sh\nprintf "%s\\n" "$*" >>"$ASKED"\nexit "${GH_CODE:-0}"\n'

Bump = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def repository(make_repository: Callable[[str], Repository], tmp_path: Path) -> Repository:
    made = make_repository("repository")
    (made.path / "scripts").mkdir()
    for name in ("bump-image", "lib.sh"):
        shutil.copy(ROOT / "scripts" / name, made.path / "scripts")
    shutil.copy(ROOT / "Dockerfile", made.path)
    made.commit({"cases/suites.yaml": "# Why.\nversion: 1\nsuites: {}\n"})
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "origin")], check=True)
    made.git("remote", "add", "origin", str(tmp_path / "origin"))
    return made


@pytest.fixture
def bump(repository: Repository, tmp_path: Path) -> Bump:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)

    def run(image: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PATH": os.pathsep.join([str(tools), os.environ["PATH"]]),
            "ASKED": str(tmp_path / "asked"),
            "REPOSITORY": "me/evenbench",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            **variables,
        }
        command = [str(repository.path / "scripts" / "bump-image"), image]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def pushed(repository: Repository, branch: str) -> str:
    repository.git("fetch", "-q", "origin", branch)
    return repository.git("show", "FETCH_HEAD:cases/suites.yaml")


def test_the_digest_is_proposed_on_a_branch_of_its_own(repository: Repository, bump: Bump, tmp_path: Path) -> None:
    done = bump(NEW)
    assert done.returncode == 0, done.stderr
    assert pushed(repository, "image/111111111111") == f"# Why.\nversion: 1\nimage: {NEW}\nsuites: {{}}"
    assert repository.git("show", "--format=%an <%ae>", "--name-only", "FETCH_HEAD").split("\n") == [
        "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>",
        "",
        "cases/suites.yaml",
    ]
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("pr create --repo me/evenbench --head image/111111111111 ")
    assert f"gh attestation verify oci://{NEW} --repo me/evenbench" in asked
    assert not (tmp_path / "summary").exists()


def test_an_older_digest_is_replaced(repository: Repository, bump: Bump) -> None:
    repository.commit({"cases/suites.yaml": f"version: 1\nimage: {NEW.replace('1', '2')}\nsuites: {{}}\n"})
    assert bump(NEW).returncode == 0
    assert pushed(repository, "image/111111111111") == f"version: 1\nimage: {NEW}\nsuites: {{}}"


def test_what_is_named_already_is_not_proposed_again(repository: Repository, bump: Bump, tmp_path: Path) -> None:
    repository.commit({"cases/suites.yaml": f"version: 1\nimage: {NEW}\n"})
    done = bump(NEW)
    assert (done.returncode, done.stdout) == (0, f"cases/suites.yaml names {NEW} already\n")
    assert not (tmp_path / "asked").exists()
    assert repository.git("ls-remote", "origin") == ""


def test_where_no_workflow_may_open_pull_requests_the_summary_says_so(
    repository: Repository, bump: Bump, tmp_path: Path
) -> None:
    assert bump(NEW, GH_CODE="1").returncode == 0
    assert "branch image/111111111111 by hand" in (tmp_path / "summary").read_text()
    assert NEW in pushed(repository, "image/111111111111")


@pytest.mark.parametrize("image", ["", "ghcr.io/me/evenbench:main"])
def test_only_an_image_by_its_digest_is_proposed(bump: Bump, image: str) -> None:
    done = bump(image)
    assert done.returncode == 1
    assert done.stderr == f"error: not an image by its digest: {image}\n"
