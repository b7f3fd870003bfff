# SPDX-License-Identifier: Apache-2.0
"""What a machine learns from its user data when it boots, read as its image reads it.

====================  =======================================================================================
Amazon Linux 2        a script, alone or in a MIME archive, that calls ``/etc/eks/bootstrap.sh``
Amazon Linux 2023     NodeConfigs for nodeadm, alone or in a MIME archive; later ones are merged over earlier ones
Bottlerocket          TOML
Windows               PowerShell between tags that calls ``Start-EKSBootstrap.ps1``
any other image       whichever of these the text looks like
====================  =======================================================================================

Nothing is run: the call that joins the cluster is found and its words are read. Variables of scripts are not
expanded. Whatever the image could not follow is a ``BootError``.
"""

from __future__ import annotations

import email
import gzip
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from karpenter.api.core import Taint
from karpenter.sandbox.kubelets.kubeletconfig import BootError, KubeletConfig, read_config, read_flags

__all__ = ["AL2", "AL2023", "BOTTLEROCKET", "OTHER", "WINDOWS", "Boot", "family_of", "read_boot"]

AL2: Final = "AL2"
AL2023: Final = "AL2023"
BOTTLEROCKET: Final = "Bottlerocket"
WINDOWS: Final = "Windows"
OTHER: Final = "Custom"

_FAMILIES: Final = (
    (re.compile(r"amazon-eks-node-al2023-"), AL2023),
    (re.compile(r"amazon-eks(-gpu|-arm64)?-node-"), AL2),
    (re.compile(r"bottlerocket-"), BOTTLEROCKET),
    (re.compile(r"Windows_Server-"), WINDOWS),
)
_BASH_CALL: Final = re.compile(r"(?<![\w.-])\S*/bootstrap\.sh(?=\s)")
_POWERSHELL_BODY: Final = re.compile(r"<powershell>(.*)</powershell>", re.DOTALL | re.IGNORECASE)
_POWERSHELL_CALL: Final = re.compile(
    r"&\s*(?:\$EKSBootstrapScriptFile|\S*Start-EKSBootstrap\.ps1\S*)", re.IGNORECASE
)
_POWERSHELL_OPTION: Final = re.compile(r"""-(\w+)\s+('(?:[^']|'')*'|"[^"]*"|[^\s'"]+)""")
_HUGE_PAGES: Final = re.compile(r"^[^#\n]*\bvm\.nr_hugepages\s*=\s*(\d+)", re.MULTILINE)
_NODE_CONFIG: Final = "application/node.eks.aws"


@dataclass(frozen=True, slots=True)
class Boot:
    """What a machine was told: the cluster to join, and how its kubelet is to be."""

    cluster: str
    endpoint: str
    kubelet: KubeletConfig
    family: str
    raid0: bool = False
    # Of 2 MiB each, as a script of the user has the kernel set them aside.
    huge_pages: int = 0


def family_of(image_name: str) -> str:
    """Gives the family that an image belongs to, from its name."""
    return next((family for pattern, family in _FAMILIES if pattern.match(image_name)), OTHER)


def read_boot(user_data: bytes, family: str = OTHER) -> Boot:
    """Reads user data as an image of the family does.

    Raises:
        BootError: The machine cannot join with it; the message says why.
    """
    text = _text(user_data)
    chosen = family if family != OTHER else _looks_like(text)
    if chosen == AL2023:
        boot = _nodeadm([content for kind, content in _parts(text) if kind == _NODE_CONFIG])
        return replace(boot, huge_pages=_huge_pages(_scripts(text)))
    if chosen == BOTTLEROCKET:
        return _bottlerocket(text)
    if chosen == WINDOWS:
        return _windows(text)
    scripts = _scripts(text)
    return replace(_bootstrap(scripts), huge_pages=_huge_pages(scripts))


def _scripts(text: str) -> list[str]:
    return [content for kind, content in _parts(text) if kind == "text/x-shellscript"]


def _huge_pages(scripts: Sequence[str]) -> int:
    """Gives how many huge pages the last script that sets them asks for."""
    set_to = [match[1] for script in scripts for match in _HUGE_PAGES.finditer(script)]
    return int(set_to[-1]) if set_to else 0


def _text(user_data: bytes) -> str:
    if not user_data.strip():
        raise BootError("there is no user data")
    try:
        # cloud-init unpacks what is packed.
        return (gzip.decompress(user_data) if user_data[:2] == b"\x1f\x8b" else user_data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as broken:
        raise BootError(f"the user data cannot be decoded: {broken}") from broken


def _looks_like(text: str) -> str:
    if "<powershell>" in text.lower():
        return WINDOWS
    if any(kind == _NODE_CONFIG for kind, _ in _parts(text)):
        return AL2023
    try:
        return BOTTLEROCKET if "settings" in tomllib.loads(text) else AL2
    except tomllib.TOMLDecodeError:
        return AL2


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Takes an archive apart; a text that is none is one part whose kind its beginning tells."""
    message = email.message_from_string(text)
    if not message.is_multipart():
        is_script = text.lstrip().startswith("#!")
        looks_like_config = not is_script and re.search(r"^kind:\s*NodeConfig\s*$", text, re.MULTILINE)
        yield (_NODE_CONFIG if looks_like_config else "text/x-shellscript", text)
        return
    for part in message.walk():
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            yield part.get_content_type(), payload.decode("utf-8", "replace")


def _bootstrap(scripts: Sequence[str]) -> Boot:
    for script in scripts:
        joined = script.replace("\\\n", " ")
        for match in _BASH_CALL.finditer(joined):
            if not joined[: match.start()].rpartition("\n")[2].lstrip().startswith("#"):
                return _bootstrap_call(_command(joined[match.end() :]))
    raise BootError("no script calls /etc/eks/bootstrap.sh")


def _command(text: str) -> list[str]:
    """Gives the words up to the end of the line, which is further down where a quote is open."""
    lines = text.split("\n")
    for count in range(1, len(lines) + 1):
        try:
            return shlex.split("\n".join(lines[:count]), comments=True)
        except ValueError:
            continue
    raise BootError("the call of bootstrap.sh has a quote that is never closed")


def _bootstrap_call(words: Sequence[str]) -> Boot:
    options: dict[str, str] = {}
    plain: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("--"):
            if not left:
                raise BootError(f"bootstrap.sh: {word} has no value")
            options[word[2:]] = left.pop(0)
        else:
            plain.append(word)
    if not plain:
        raise BootError("bootstrap.sh: the name of the cluster is missing")
    return Boot(
        plain[0],
        options.get("apiserver-endpoint", ""),
        read_flags(_words(options.get("kubelet-extra-args", ""))),
        AL2,
        raid0=options.get("local-disks") == "raid0",
    )


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as broken:
        raise BootError(f"the kubelet's arguments cannot be taken apart: {broken}") from broken


def _nodeadm(texts: Sequence[str]) -> Boot:
    if not texts:
        raise BootError("nodeadm finds no NodeConfig")
    spec: dict[str, Any] = {}
    for text in texts:
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as broken:
            raise BootError(f"nodeadm cannot read a NodeConfig: {broken}") from broken
        if not isinstance(document, dict) or document.get("kind") != "NodeConfig":
            raise BootError("nodeadm finds something that is not a NodeConfig")
        _merge(spec, document.get("spec") or {})
    cluster = spec.get("cluster") or {}
    for key in ("name", "apiServerEndpoint", "certificateAuthority", "cidr"):
        if not cluster.get(key):
            raise BootError(f"nodeadm: {key} is missing in the cluster configuration")
    kubelet = spec.get("kubelet") or {}
    words = [word for flag in kubelet.get("flags") or () for word in _words(flag)]
    storage = (spec.get("instance") or {}).get("localStorage") or {}
    return Boot(
        cluster["name"],
        cluster["apiServerEndpoint"],
        read_flags(words, read_config(kubelet.get("config") or {})),
        AL2023,
        raid0=storage.get("strategy") == "RAID0",
    )


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif key == "flags" and isinstance(into.get(key), list):
            into[key] = [*into[key], *value]
        else:
            into[key] = value


def _bottlerocket(text: str) -> Boot:
    try:
        settings = tomllib.loads(text).get("settings") or {}
    except tomllib.TOMLDecodeError as broken:
        raise BootError(f"Bottlerocket cannot read its settings: {broken}") from broken
    kubernetes = settings.get("kubernetes") or {}
    for key in ("cluster-name", "api-server"):
        if not kubernetes.get(key):
            raise BootError(f"Bottlerocket: settings.kubernetes.{key} is missing")
    taints = tuple(
        Taint(key=key, value=each.partition(":")[0], effect=each.partition(":")[2])
        for key, values in (kubernetes.get("node-taints") or {}).items()
        for each in ([values] if isinstance(values, str) else values)
    )
    base = KubeletConfig(
        labels=kubernetes.get("node-labels") or {},
        taints=taints,
        max_pods=kubernetes.get("max-pods"),
        kube_reserved=kubernetes.get("kube-reserved"),
        system_reserved=kubernetes.get("system-reserved"),
        eviction_hard=kubernetes.get("eviction-hard"),
    )
    commands = settings.get("bootstrap-commands") or {}
    raid0 = any(
        "ephemeral-storage" in line for each in commands.values() for line in each.get("commands", ())
    )
    return Boot(
        kubernetes["cluster-name"], kubernetes["api-server"], read_flags((), base), BOTTLEROCKET, raid0=raid0
    )


def _windows(text: str) -> Boot:
    body = _POWERSHELL_BODY.search(text)
    if body is None:
        raise BootError("there is no text between powershell tags")
    call = _POWERSHELL_CALL.search(body[1])
    if call is None:
        raise BootError("no line calls Start-EKSBootstrap.ps1")
    line = body[1][call.end() :].partition("\n")[0]
    options = {match[1].lower(): _unquoted(match[2]) for match in _POWERSHELL_OPTION.finditer(line)}
    if not options.get("eksclustername"):
        raise BootError("Start-EKSBootstrap.ps1: -EKSClusterName is missing")
    return Boot(
        options["eksclustername"],
        options.get("apiserverendpoint", ""),
        read_flags(_words(options.get("kubeletextraargs", ""))),
        WINDOWS,
    )


def _unquoted(word: str) -> str:
    if word.startswith("'"):
        return word[1:-1].replace("''", "'")
    return word.strip('"')
