"""Which profile is made for a host, and how a host's GPUs are found."""

import json
import os
from pathlib import Path

import pytest
from host_documents import gpu_answer
from test_profiles import change
from typer.testing import CliRunner

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.profiles import detect as detection
from dflash_kit.profiles.cli import app
from dflash_kit.profiles.load import load_profile


def test_detection(profiles: Path) -> None:
    assert detection.detect([]).name == "cpu-tiny"
    assert detection.detect(["Testcard 9"] * 2).name == "two-gpus"
    for found, described in [(["Testcard 9"], "1 x Testcard 9"), (["Other"] * 2, "2 x Other")]:
        with pytest.raises(InputError) as caught:
            detection.detect(found)
        message = str(caught.value)
        assert f"found {described}" in message
        assert "cpu-tiny (no GPU), two-gpus (2 x Testcard 9)" in message


def test_one_that_is_not_detected_must_be_named(profiles: Path) -> None:
    change(profiles / "two-gpus.yaml", detected=False)
    with pytest.raises(
        InputError, match=r"no profile is made for this host: .*cpu-tiny \(no GPU\)"
    ):
        detection.detect(["Testcard 9"] * 2)
    assert load_profile("two-gpus").detected is False


def test_other_names_of_a_card_will_do_but_not_mixed(profiles: Path) -> None:
    hardware = {"memory_mib": 1, "accelerator": "Testcard 9", "also": ["Testcard 9 Q"], "count": 2}
    change(profiles / "two-gpus.yaml", hardware=hardware)
    profile = load_profile("two-gpus")
    assert detection.accepts(profile, ["Testcard 9 Q"] * 2)
    assert not detection.accepts(profile, ["Testcard 9", "Testcard 9 Q"])


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (["NVIDIA RTX PRO 6000 Blackwell Server Edition"] * 8, "rtx-pro-6000-x8"),
        (["NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"] * 8, "rtx-pro-6000-x8"),
        (["NVIDIA B300 SXM6 AC"] * 8, "b300-x8"),
        (["NVIDIA H200"], "h200-x1"),
        ([], "cpu-tiny"),
    ],
)
def test_each_kind_of_host_has_its_profile(found: list[str], name: str) -> None:
    assert detection.detect(found).name == name
    if found:
        with pytest.raises(InputError, match=f"no profile is made for this host: found {7} x "):
            detection.detect(found[:1] * 7)


def test_detection_refuses_what_it_found(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    for mig in ("Disabled", "Enabled"):
        gpus = gpu_answer("NVIDIA B300 SXM6 AC", mig=mig, capability="10.3", memory="275040 MiB")
        file.write_text(json.dumps({"schema": 1, "commands": {"gpus": gpus}}))
        result = CliRunner().invoke(app, ["detect", "--from", str(file)])
        if mig == "Enabled":
            assert "mig: got GPU 0 Enabled" in str(result.exception)
        else:
            assert result.stdout.strip() == "b300-x8 (8 x NVIDIA B300 SXM6 AC)"


def test_acceptance(profiles: Path) -> None:
    gpu = load_profile("two-gpus")
    assert detection.accepts(gpu, ["Testcard 9"] * 2)
    assert not detection.accepts(gpu, ["Testcard 9", "Other"])
    assert not detection.accepts(gpu, [])
    assert detection.accepts(load_profile("cpu-tiny"), ["Other"])


def fake_nvidia_smi(folder: Path, body: str) -> None:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "nvidia-smi").chmod(0o755)


def test_gpus_are_what_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(detection, "_DEVICES", tmp_path)
    assert detection.names(detection.here()) == []
    answer = gpu_answer("Testcard 9", 2, driver="9.1")["stdout"]
    fake_nvidia_smi(tmp_path, f"echo '{answer}'")
    host = detection.here()
    assert detection.names(host) == ["Testcard 9", "Testcard 9"]
    assert host.driver == "9.1"


def test_a_gpu_that_the_driver_does_not_describe_is_undetermined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(detection, "_DEVICES", tmp_path)
    (tmp_path / "nvidia0").touch()
    with pytest.raises(Undetermined, match=r"nvidia0 exist, but: nvidia-smi is not on the PATH"):
        detection.here()
    for body in ("echo no; echo driver; exit 9", "echo no driver >&2; exit 9"):
        fake_nvidia_smi(tmp_path, body)
        with pytest.raises(Undetermined, match=r"nvidia0 exist, but: gpus: no driver; name a prof"):
            detection.here()
    fake_nvidia_smi(tmp_path, "exit 0")
    with pytest.raises(Undetermined, match=r"nvidia0 exist, but: it lists none; name a profile"):
        detection.here()


def test_a_driver_without_a_gpu_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(detection, "_DEVICES", tmp_path)
    fake_nvidia_smi(tmp_path, "echo No devices were found; exit 6")
    assert detection.names(detection.here()) == []


def test_a_driver_that_hangs_is_undetermined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvidia_smi(tmp_path, "exec sleep 1000")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(detection, "_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(Undetermined) as caught:
        detection.here()
    message = str(caught.value)
    assert "nvidia-smi gave no answer in 0.2 s" in message and "\n" not in message
