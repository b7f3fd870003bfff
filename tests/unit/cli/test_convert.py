# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from karpenter.api.legacy import convert
from karpenter.api.manifests import write_yaml
from karpenter.cli import main, output
from karpenter.cli.convert import rendered

PROVISIONER = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: NAME}
spec:
  ttlSecondsAfterEmpty: 30
  providerRef: {name: default}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
COMMAND = [sys.executable, "-c", "import sys; from karpenter.cli import main; sys.exit(main())", "convert"]


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def provisioner(name: str = "default") -> str:
    return PROVISIONER.replace("NAME", name)


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What the command reads as standard input; write to it before."""
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    return content


def names(text: str) -> list[tuple[str, str]]:
    return [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(text)]


def test_data_is_on_stdout_and_talk_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.yaml", f"{provisioner()}---\n{SERVICE}")

    assert main(["convert", "-f", path]) == 0

    shown = capsys.readouterr()
    assert names(shown.out) == [("NodePool", "default"), ("Service", "s")]
    warning, count = shown.err.splitlines()
    assert warning.startswith(
        "warning: Provisioner default: spec.ttlSecondsAfterEmpty: v1 disrupts at most 10%"
    )
    assert count == "1 converted, 1 passed through, 1 warning"


def test_standard_input_is_a_dash(stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    stdin.write(provisioner("from-stdin").encode())
    stdin.seek(0)

    assert main(["convert", "-f", "-"]) == 0
    assert names(capsys.readouterr().out) == [("NodePool", "from-stdin")]


def test_several_files_belong_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path / "a.yaml", provisioner("a"))
    second = write(tmp_path / "b.json", json.dumps(yaml.safe_load(provisioner("b"))))

    assert main(["convert", "-f", second, "--filename", first]) == 0
    assert names(capsys.readouterr().out) == [("NodePool", "b"), ("NodePool", "a")]


def test_findings_about_several_files_end_with_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write(tmp_path / "a.yaml", provisioner("a"))
    second = write(tmp_path / "b.yaml", f"{SERVICE}---\n{provisioner('Bad_Name')}")

    assert main(["convert", "-f", first, "-f", second]) == 1

    warning, refusal, _ = capsys.readouterr().err.splitlines()
    assert warning.endswith(f" ({first}:1)")
    assert refusal.startswith("error: Provisioner Bad_Name: metadata.name: ")
    assert refusal.endswith(f" ({second}:5)")


def test_a_directory_is_read_by_name_and_only_manifests_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("c.yml", "b.YAML", "a.json", "z.txt", "below/d.yaml"):
        write(tmp_path / name, provisioner(name[0]))

    assert main(["convert", "-f", str(tmp_path)]) == 0
    assert [name for _, name in names(capsys.readouterr().out)] == ["a", "b", "c"]


def test_directories_below_are_read_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("b/x/one.yaml", "a/two.yaml", "three.yaml"):
        write(tmp_path / name, provisioner(Path(name).stem))

    assert main(["convert", "--recursive", "-f", str(tmp_path)]) == 0
    assert [name for _, name in names(capsys.readouterr().out)] == ["three", "two", "one"]


def test_json_is_a_list_that_kubectl_applies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.yaml", provisioner())

    assert main(["convert", "-f", path, "-o", "json"]) == 0

    made = json.loads(capsys.readouterr().out)
    assert (made["apiVersion"], made["kind"]) == ("v1", "List")
    assert [each["kind"] for each in made["items"]] == ["NodePool"]


def test_a_diff_shows_what_changes_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.yaml", f"{provisioner()}---\n{SERVICE}")

    assert main(["convert", "-f", path, "--diff"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith("--- Provisioner default\n+++ NodePool default\n@@")
    assert "-apiVersion: karpenter.sh/v1alpha5\n" in shown
    assert "+apiVersion: karpenter.sh/v1\n" in shown
    assert "Service" not in shown
    assert "\x1b" not in shown


def test_what_is_refused_is_left_out_and_the_rest_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.yaml", f"{provisioner('Bad_Name')}---\n{provisioner('good')}")

    assert main(["convert", "-f", path]) == 1

    shown = capsys.readouterr()
    assert names(shown.out) == [("NodePool", "good")]
    assert "error: Provisioner Bad_Name: metadata.name: " in shown.err
    assert shown.err.splitlines()[-1] == "1 converted, 0 passed through, 1 refused and left out, 1 warning"


def test_a_refusal_comes_with_its_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.yaml", provisioner().replace("v1alpha5", "v1alpha4"))

    assert main(["convert", "-f", path]) == 1

    shown = capsys.readouterr()
    assert shown.out == ""
    assert (
        "error: Provisioner default: apiVersion: karpenter.sh/v1alpha4 knows no Provisioner\nhint:  known are "
        in (shown.err)
    )


def test_objects_can_go_back_to_v1beta1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = write(tmp_path / "a.yaml", provisioner().replace("ttlSecondsAfterEmpty: 30", "weight: 3"))
    main(["convert", "-f", there])
    back = write(tmp_path / "b.yaml", capsys.readouterr().out)

    assert main(["convert", "-f", back, "--to", "v1beta1"]) == 0
    assert "apiVersion: karpenter.sh/v1beta1" in capsys.readouterr().out


def test_the_default_instance_profile_reaches_the_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = (
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: a}\n"
        "spec: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}\n"
    )
    path = write(tmp_path / "a.yaml", template)

    assert main(["convert", "-f", path]) == 1
    capsys.readouterr()
    assert main(["convert", "-f", path, "--default-instance-profile", "p"]) == 0
    assert "instanceProfile: p\n" in capsys.readouterr().out


def test_a_missing_file_is_an_error_with_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-f", "no/such.yaml"]) == 2
    assert capsys.readouterr().err == (
        "error: cannot read no/such.yaml: No such file or directory\nhint:  check the name; '-' reads standard input\n"
    )


@pytest.mark.parametrize(
    ("code", "advice"), [(errno.EACCES, "hint:  check who may read it\n"), (errno.EIO, "")]
)
def test_reading_that_fails_halfway_is_an_error(
    code: int,
    advice: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(path: Path) -> bytes:
        raise OSError(code, "no luck", str(path))

    monkeypatch.setattr(Path, "read_bytes", fail)
    path = write(tmp_path / "a.yaml", provisioner())

    assert main(["convert", "-f", path]) == 2
    assert capsys.readouterr().err == f"error: cannot read {path}: no luck\n{advice}"


def test_a_directory_that_cannot_be_listed_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", fail)

    assert main(["convert", "-f", str(tmp_path)]) == 2
    assert f"error: cannot read {tmp_path}: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing\n"])
def test_an_input_without_objects_is_an_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.yaml", text)

    assert main(["convert", "-f", path]) == 2
    assert capsys.readouterr().err.startswith(f"error: no objects in {path}\n")


def test_broken_yaml_is_an_error_with_line_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.yaml", "a: 1\nb: [2\nc: 3\n")

    assert main(["convert", "-f", path]) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "a.yaml" in shown.err
    assert "line 3, column 2" in shown.err or ":3:" in shown.err


@pytest.mark.parametrize(
    "content",
    [b"\x7fELF\x00\x01\xff\xfe", b"\x00" * 100, b"{" * 5000, b"[" * 200_000, b"- " * 3000, b"\xff\xfea\x00"],
    ids=["elf", "zeroes", "braces", "brackets", "dashes", "utf-16"],
)
def test_what_is_no_manifest_is_an_error_without_a_traceback(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(content)

    assert main(["convert", "-f", str(path)]) in {1, 2}

    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert "mistake in karpenter" not in shown


def test_a_value_nested_deeply_is_an_error_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = "[" * 900 + "]" * 900
    path = write(tmp_path / "a.yaml", provisioner() + f"  labels: {deep}\n")

    assert main(["convert", "-f", path]) in {1, 2}
    assert "mistake in karpenter" not in capsys.readouterr().err


@pytest.mark.timeout(60)
def test_ten_megabytes_of_other_peoples_objects_pass_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", 0.0)
    blob = "x" * 10_000_000
    path = write(
        tmp_path / "a.yaml",
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata: {{a: {blob}}}\n",
    )

    assert main(["convert", "-f", path]) == 0

    shown = capsys.readouterr()
    assert len(shown.out) > len(blob)
    assert f"reading {path} ..." in shown.err


def test_a_reader_that_goes_away_ends_the_command_without_a_word(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", "---\n".join(provisioner(f"p{n}") for n in range(40)))
    reader, writer = os.pipe()
    os.close(reader)

    ended = subprocess.run([*COMMAND, "-f", path], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (output.BROKEN_PIPE, b"")


def test_control_c_ends_the_command_with_one_line() -> None:
    with subprocess.Popen(
        [*COMMAND, "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        # The command has begun to read once it says that reading takes long.
        assert process.stderr is not None
        assert process.stderr.readline() == b"reading - ...\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)

    assert process.returncode == 130
    assert said.strip() == b"error: interrupted"


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--help"]) == 0

    shown = capsys.readouterr().out
    assert "  karpenter convert -f provisioner.yaml --diff\n" in shown
    assert "Exit codes: 0 all converted" in shown


def test_converting_many_objects_tells_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PATIENCE_S", 0.001)
    monkeypatch.setattr(output, "_ELSEWHERE_S", 0.001)
    for number in range(3):
        objects = [provisioner(f"p-{number}-{each}") for each in range(40)]
        write(tmp_path / f"{number}.yaml", "---\n".join(objects))

    assert main(["convert", "-f", str(tmp_path)]) == 0

    said = capsys.readouterr().err
    assert re.search(r"^reading \S+: \d+ objects so far \.\.\.$", said, re.MULTILINE)
    for stage in ("checking", "converting", "writing"):
        assert re.search(rf"^{stage} \d+ of 120 objects \.\.\.$", said, re.MULTILINE), stage


def test_twenty_thousand_objects_are_counted_with_separators() -> None:
    told: list[tuple[str, int, int]] = []
    objects = [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": str(n)}} for n in range(20_000)]

    conversion = convert(objects, tell=lambda *words: told.append(words))

    assert len(conversion.objects) == 20_000
    assert told[0] == ("checking", 0, 20_000)
    assert told[19_999] == ("checking", 19_999, 20_000)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_objects_are_written_one_after_the_other_as_one_stream(count: int) -> None:
    objects = [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s{n}"}} for n in range(count)]

    assert rendered(convert(objects), "yaml") == write_yaml(objects)


def test_a_way_back_is_counted_too() -> None:
    told: list[str] = []
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {
            "template": {
                "spec": {
                    "requirements": [],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"},
                }
            }
        },
    }

    convert([pool], to="v1beta1", tell=lambda stage, _done, _total: told.append(stage))

    assert told == ["checking", "converting"]
