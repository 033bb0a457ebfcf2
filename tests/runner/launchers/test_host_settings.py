"""What the machine decides: launcher, images, network of set-ups, memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.errors import UsageError
from evenbench.runner.launchers.host_settings import HostSettings, LauncherName, allows

DIGEST = "@sha256:" + "0123456789abcdef" * 4


def test_nothing_is_set() -> None:
    settings = HostSettings.read({})
    assert settings == HostSettings()
    assert settings.launcher_for(None) == "local"
    assert settings.launcher_for("podman") == "podman"


def test_all_is_set() -> None:
    settings = HostSettings.read(
        {
            "EVENBENCH_LAUNCHER": "docker",
            "EVENBENCH_IMAGE": " localhost/evenbench:cpu ",
            "EVENBENCH_IMAGES": "ghcr.io/me/, ghcr.io/you/it",
            "EVENBENCH_SETUP_NETWORK": "bridge",
            "EVENBENCH_MEMORY_GIB": "1.5",
        }
    )
    assert settings == HostSettings(
        "docker", "localhost/evenbench:cpu", ("ghcr.io/me/", "ghcr.io/you/it"), "bridge", 3 << 29
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EVENBENCH_LAUNCHER", "Docker"),
        ("EVENBENCH_LAUNCHER", "none"),
        ("EVENBENCH_SETUP_NETWORK", "--privileged"),
        ("EVENBENCH_SETUP_NETWORK", "container:other"),
        ("EVENBENCH_MEMORY_GIB", "0.1"),
        ("EVENBENCH_MEMORY_GIB", "8g"),
        ("EVENBENCH_MEMORY_GIB", "nan"),
        ("EVENBENCH_MEMORY_GIB", "-1"),
    ],
)
def test_nonsense_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{name}={value}"):
        HostSettings.read({name: value})


@pytest.mark.parametrize("demanded", ["local", "docker", "podman"])
def test_the_machine_has_the_last_word_on_the_launcher(demanded: LauncherName) -> None:
    settings = HostSettings(demanded)
    assert settings.launcher_for(None) == settings.launcher_for(demanded) == demanded
    for other in {"local", "docker", "podman"} - {demanded}:
        with pytest.raises(UsageError, match=f"this machine measures with {demanded}"):
            settings.launcher_for(other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entry", "image", "allowed"),
    [
        ("ghcr.io/me/", f"ghcr.io/me/mylib{DIGEST}", True),
        ("ghcr.io/me/", f"ghcr.io/me/deep/mylib:1.0{DIGEST}", True),
        ("ghcr.io/me/mylib", f"ghcr.io/me/mylib{DIGEST}", True),
        ("ghcr.io/me/mylib", f"ghcr.io/me/mylib:1.0{DIGEST}", True),
        ("localhost:5000/me/", f"localhost:5000/me/mylib{DIGEST}", True),
        ("ghcr.io/me/mylib:1.0", "ghcr.io/me/mylib:1.0", True),
        (f"ghcr.io/me/mylib{DIGEST}", f"ghcr.io/me/mylib{DIGEST}", True),
        ("ghcr.io/me/", "ghcr.io/me/mylib:1.0", False),  # a tag can be moved
        ("ghcr.io/me/", "ghcr.io/me/mylib", False),
        ("ghcr.io/me/", f"ghcr.io/me-too/mylib{DIGEST}", False),
        ("ghcr.io/me", f"ghcr.io/me/mylib{DIGEST}", False),  # a repository, no folder
        ("ghcr.io/me/mylib", f"ghcr.io/me/mylib-evil{DIGEST}", False),
        ("ghcr.io/me/mylib", f"ghcr.io/me/mylib/evil{DIGEST}", False),
        ("ghcr.io/me/", f"ghcr.io/me/../evil/it{DIGEST}", False),
        ("ghcr.io/me/", f"evil.example/ghcr.io/me/it{DIGEST}", False),
        ("ghcr.io/me/", f"ghcr.io/me/mylib@sha256:{'0' * 63}", False),
        ("ghcr.io/me/", f"ghcr.io/me/mylib{DIGEST} --privileged", False),
        ("", f"ghcr.io/me/mylib{DIGEST}", False),
        ("/", f"ghcr.io/me/mylib{DIGEST}", False),
    ],
)
def test_images_that_are_allowed(entry: str, image: str, *, allowed: bool) -> None:
    assert allows(entry, image) is allowed


def test_the_image_of_a_run() -> None:
    settings = HostSettings("podman", "localhost/evenbench:cpu", ("ghcr.io/me/",))
    assert settings.image_for("") == settings.image_for("localhost/evenbench:cpu") == "localhost/evenbench:cpu"
    assert settings.image_for(f"ghcr.io/me/mylib{DIGEST}") == f"ghcr.io/me/mylib{DIGEST}"
    with pytest.raises(UsageError, match="not allowed on this machine"):
        settings.image_for(f"ghcr.io/evil/mylib{DIGEST}")
    with pytest.raises(UsageError, match="no image for the sandbox"):
        HostSettings("podman").image_for("")


@given(st.text(), st.sampled_from(["", "-", "--", "--volume=/:/host "]))
def test_no_option_is_taken_for_an_image(text: str, start: str) -> None:
    image = start + text
    for settings in (HostSettings("podman", "ours", (image,)), HostSettings("podman", image)):
        try:
            found = settings.image_for(image)
        except UsageError:
            continue
        assert found in ("ours", image)
        assert not found.startswith("-")
        assert " " not in found
