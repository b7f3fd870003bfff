# SPDX-License-Identifier: Apache-2.0
"""Manifests: YAML or JSON text into objects, and objects into YAML, as kubectl reads and people write.

Reading follows go-yaml as kubectl uses it: ``yes``, ``on`` and ``y`` are booleans, ``010`` is eight, a date
stays text, a key that is a number or boolean becomes text, ``1.0`` becomes 1. Where kubectl lets a mistake
pass, we do not: a key given twice is an error. Every error is one line with the file, line and column.

Nothing here recurses over the input and everything has a limit, so no file can exhaust the stack or the
memory: a file has at most 10 MiB, 100 levels and half a million values, those that aliases repeat included.

What an object means is not judged here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

from karpenter.errors import KarpenterError

__all__ = ["Manifest", "ManifestError", "iter_manifests", "read_manifests", "write_yaml"]

_LARGEST_FILE_BYTES: Final = 10 * 1024 * 1024
_DEEPEST: Final = 100
_MOST_VALUES: Final = 500_000

_TAG: Final = "tag:yaml.org,2002:"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: Final[Mapping[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?", re.DOTALL)
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

_JSON_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:(?P<mark>[{}\[\],:])|(?P<text>"(?:[^"\\\x00-\x1f]|\\.)*")"""
    r"""|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.])|(?P<name>true|false|null)\b)""",
    re.DOTALL,
)
_JSON_SPACE: Final = re.compile(r"[ \t\r\n]*")
_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
_JSON_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_JSON_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}

_LONGEST_INTEGER: Final = len(str(-(2**63)))
_NEVER_FOLD: Final = 2**30
_FIRST_KEYS: Final = ("apiVersion", "kind", "metadata", "spec", "status")


class ManifestError(KarpenterError):
    """A text that is not a manifest; the message says where."""


class _NotJsonError(ManifestError):
    """A text that begins like JSON and is not; it may be YAML."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file.

    Attributes:
        object: Plain dicts, lists and scalars.
        source: The file, or ``-`` for standard input.
        document: Which document of the file, from 0; empty ones count.
        line: The line on which the object begins, from 1.
        item: For an item of a List, its index; otherwise None.
    """

    object: dict[str, Any]
    source: str
    document: int
    line: int
    item: int | None = None

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


def read_manifests(text: str | bytes, source: str = "-") -> tuple[Manifest, ...]:
    """Return the objects of a file, in order; empty documents are left out and Lists taken apart.

    Raises:
        ManifestError: the text is neither YAML nor JSON, or too large, or a document is not an object.
    """
    return tuple(iter_manifests(text, source))


def iter_manifests(text: str | bytes, source: str = "-") -> Iterator[Manifest]:
    """Yield the objects of a file as they are read; see ``read_manifests``.

    Raises:
        ManifestError: the text is neither YAML nor JSON, or too large, or a document is not an object.
    """
    place = _Place(source, 1, 1)
    if len(text) > _LARGEST_FILE_BYTES:
        size = f"{_LARGEST_FILE_BYTES // 1024 // 1024} MiB"
        _fail(place, f"the file is larger than {size}", "split it; no manifest needs that much")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            _fail(_Place(source, line, 1), "the file is not UTF-8 text", "save it as UTF-8")
    text = text.removeprefix("\ufeff")
    for document in _documents(text, source):
        yield from _manifests(document)


def write_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return the objects as YAML documents that kubectl reads back as they were.

    Keys come in the order people know (apiVersion, kind, metadata, spec, status), others as they stand;
    texts of several lines as blocks; texts that look like something else between quotes.
    """
    documents = [{**_first(obj), **obj} for obj in objects]
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_NEVER_FOLD,
        default_flow_style=False,
    )


@dataclass(frozen=True, slots=True)
class _Place:
    source: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class _Document:
    value: Any
    index: int
    place: _Place
    item_places: tuple[_Place, ...] = ()


@dataclass(slots=True)
class _Container:
    """A list or mapping that is being filled."""

    value: dict[str, Any] | list[Any]
    place: _Place
    anchor: str | None
    size: int = 1
    # The key whose value comes next, in a mapping that has one open.
    key: str = ""
    has_key: bool = False
    # Keys that a merge (<<) brought: a key of the mapping's own may follow, and wins.
    merged: set[str] = field(default_factory=set)
    merging: bool = False


class _Builder:
    """Puts scalars, lists and mappings together from events, whatever format they come from."""

    def __init__(self, source: str) -> None:
        self._stack: list[_Container] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self.result: Any = None
        self.place = _Place(source, 1, 1)
        self.item_places: list[_Place] = []

    def reset(self) -> None:
        """Begin a new document; anchors do not reach across, the count of values does."""
        self._anchors = {}
        self.result = None
        self.item_places = []

    def start(self, value: dict[str, Any] | list[Any], place: _Place, anchor: str | None = None) -> None:
        if len(self._stack) >= _DEEPEST:
            _fail(
                place,
                f"nested more than {_DEEPEST} levels deep",
                "no Kubernetes object needs that; is this a manifest?",
            )
        if self._awaits_key():
            _fail(place, "a list or mapping cannot be a key", "write the key as text")
        self._note_item(place)
        self._count(1, place)
        self._stack.append(_Container(value, place, anchor))

    def end(self) -> None:
        container = self._stack.pop()
        if container.anchor:
            self._anchors[container.anchor] = (container.value, container.size)
        self._add(container.value, container.place, container.size)

    def scalar(self, value: Any, place: _Place, anchor: str | None = None, *, merge: bool = False) -> None:
        if anchor:
            self._anchors[anchor] = (value, 1)
        self._note_item(place)
        self._count(1, place)
        if self._awaits_key():
            if merge:
                self._stack[-1].merging = True
            else:
                self._take_key(self._stack[-1], value, place)
            return
        if isinstance(value, float) and not math.isfinite(value):
            _fail(place, "not a number that JSON has", "put it between quotes if it is text")
        self._add(value, place, 1)

    def alias(self, name: str, place: _Place) -> None:
        if name not in self._anchors:
            _fail(
                place, f"alias *{name} names no anchor before it", f"write &{name} at the value it stands for"
            )
        value, size = self._anchors[name]
        self._count(size, place)
        if self._awaits_key():
            if isinstance(value, (dict, list)):
                _fail(place, "a list or mapping cannot be a key", "write the key as text")
            self._take_key(self._stack[-1], value, place)
            return
        self._note_item(place)
        self._add(value, place, size)

    def _awaits_key(self) -> bool:
        top = self._stack[-1] if self._stack else None
        return top is not None and isinstance(top.value, dict) and not top.has_key and not top.merging

    def _count(self, size: int, place: _Place) -> None:
        self._values += size
        if self._values > _MOST_VALUES:
            what = f"more than {_MOST_VALUES:,} values, those that aliases repeat included"
            _fail(place, what, "split the file, or use fewer aliases")

    def _note_item(self, place: _Place) -> None:
        """Remember where each item of a List begins."""
        if len(self._stack) == 2 and isinstance(self._stack[1].value, list) and self._stack[0].key == "items":
            self.item_places.append(place)

    def _take_key(self, top: _Container, value: Any, place: _Place) -> None:
        key = _key_text(value)
        if key is None:
            _fail(place, f"{'null' if value is None else value} cannot be a key", "put it between quotes")
        if isinstance(top.value, dict) and key in top.value and key not in top.merged:
            _fail(
                place,
                f"key {key!r} is given twice in one mapping",
                "keep one of the two; kubectl would silently pick one",
            )
        top.merged.discard(key)
        top.key, top.has_key = key, True

    def _add(self, value: Any, place: _Place, size: int) -> None:
        if not self._stack:
            self.result, self.place = value, place
            return
        top = self._stack[-1]
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.merging:
            self._merge(top, value, place)
        else:
            top.value[top.key] = value
            top.has_key = False

    def _merge(self, top: _Container, value: Any, place: _Place) -> None:
        top.merging = False
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            _fail(
                place,
                "only mappings can be merged with <<",
                "give << an alias of a mapping, or a list of them",
            )
        for part in parts:
            for key, inner in part.items():
                if isinstance(top.value, dict) and key not in top.value:
                    top.value[key] = inner
                    top.merged.add(key)


def _documents(text: str, source: str) -> Iterable[_Document]:
    if not text.lstrip().startswith("{"):
        return _yaml_documents(text, source)
    try:
        return list(_json_documents(text, source))
    except _NotJsonError as not_json:
        # YAML in flow style begins like JSON. What is neither is told as JSON, which it looks like.
        try:
            return list(_yaml_documents(text, source))
        except ManifestError:
            raise not_json from None


def _yaml_documents(text: str, source: str) -> Iterator[_Document]:
    builder = _Builder(source)
    index = -1
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            place = _Place(source, event.start_mark.line + 1, event.start_mark.column + 1)
            if isinstance(event, yaml.DocumentStartEvent):
                index += 1
                builder.reset()
            elif isinstance(event, yaml.DocumentEndEvent):
                yield _Document(builder.result, index, builder.place, tuple(builder.item_places))
            elif isinstance(event, yaml.ScalarEvent):
                value = _scalar(event, place)
                # A plain scalar has no style, which the two parsers write as '' and None.
                merge = not event.style and event.value == "<<" and event.tag is None
                builder.scalar(value, place, event.anchor, merge=merge)
            elif isinstance(event, yaml.AliasEvent):
                builder.alias(event.anchor or "", place)
            elif isinstance(event, yaml.CollectionStartEvent):
                _check_tag(event.tag, "map" if isinstance(event, yaml.MappingStartEvent) else "seq", place)
                builder.start({} if isinstance(event, yaml.MappingStartEvent) else [], place, event.anchor)
            elif isinstance(event, yaml.CollectionEndEvent):
                builder.end()
    except yaml.YAMLError as error:
        raise _yaml_error(error, source, text) from error


def _yaml_error(error: yaml.YAMLError, source: str, text: str) -> ManifestError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if mark is None and isinstance(getattr(error, "position", None), int):
        before = text.encode()[: error.position].decode(errors="replace")  # type: ignore[attr-defined]
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    around = text.splitlines()[line - 1] if 0 < line <= len(text.splitlines()) else ""
    hint = "check the indentation and the quotes on this line and the one before"
    if "\t" in around[: len(around) - len(around.lstrip())]:
        hint = "indent with spaces; YAML does not take tabs"
    return _error(_Place(source, line, column), f"not YAML: {problem}", hint)


def _scalar(event: yaml.ScalarEvent, place: _Place) -> Any:
    text: str = event.value
    tag = (event.tag or "").removeprefix(_TAG)
    if event.tag is None:
        return _resolved(text) if event.implicit[0] else text
    if tag in {"str", "timestamp", "!"}:
        return text
    value = _resolved(text)
    fits = {"bool": isinstance(value, bool), "null": value is None}
    fits["int"] = isinstance(value, int) and not isinstance(value, bool)
    fits["float"] = fits["int"] or isinstance(value, float)
    if tag not in fits:
        _fail(place, f"tag {event.tag} is not known", "leave the tag out; kubectl knows plain YAML only")
    if not fits[tag]:
        _fail(place, f"{text!r} cannot be read as !!{tag}", "leave the tag out, or correct the value")
    return value


def _check_tag(tag: str | None, wanted: str, place: _Place) -> None:
    if tag not in {None, "!", _TAG + wanted}:
        _fail(place, f"tag {tag} is not known", "leave the tag out; kubectl knows plain YAML only")


def _resolved(text: str) -> Any:
    """Return what a plain scalar stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or _DATE.fullmatch(text):
        return text
    digits = text.replace("_", "")
    if text[0] != "." and _INTEGER.fullmatch(digits):
        return _integer(digits)
    if _FLOAT.fullmatch(digits if text[0] != "." else text):
        value = float(digits)
        if math.isfinite(value):
            # Through JSON, as everything reaches the API server, 1.0 and 1 are the same.
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return text


def _integer(digits: str) -> int | float | str:
    sign = -1 if digits[0] == "-" else 1
    bare = digits.lstrip("+-").lower()
    # Two zeros in front, or one and a digit, mean octal in YAML 1.1.
    octal = bare[0] == "0" and bare[1:2].isdigit()
    value = sign * (int(bare, 8) if octal else int(bare, 0))
    if -(2**63) <= value < 2**64:
        return value
    return float(value) if bare.isdigit() and not octal and len(bare) < 308 else digits


def _key_text(value: Any) -> str | None:
    """Return a key as text, or None for what kubectl cannot make a key of, or only by rounding it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value and 1e-4 <= abs(value) < 1e6 else None
    return value if isinstance(value, str) else None


def _json_documents(text: str, source: str) -> Iterator[_Document]:
    reader = _JsonReader(text, source)
    index = 0
    while not reader.at_end():
        yield reader.document(index)
        index += 1


class _JsonReader:
    """JSON without recursion: a stack of what is open, and what may come next."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._at = 0
        self._line = 1
        self._line_start = 0
        self._builder = _Builder(source)

    def at_end(self) -> bool:
        """Return whether only space is left."""
        self._advance(_JSON_SPACE.match(self._text, self._at).end())  # type: ignore[union-attr]
        return self._at == len(self._text)

    def document(self, index: int) -> _Document:
        """Return the next document of the stream."""
        builder = self._builder
        builder.reset()
        open_: list[str] = []
        # What may follow: a value, a key, a comma or the end; decided by the word before.
        wants = "value"
        while True:
            kind, word, place = self._token()
            if kind == "mark" and word in "{[" and wants in {"value", "first item"}:
                builder.start({} if word == "{" else [], place)
                open_.append(word)
                wants = "first key" if word == "{" else "first item"
                continue
            if kind == "mark" and word in "}]" and wants in {"comma", "first key", "first item"} and open_:
                if open_.pop() != {"}": "{", "]": "["}[word]:
                    self._unexpected(word, place)
                builder.end()
                wants = "comma"
            elif kind == "mark" and word == "," and wants == "comma" and open_:
                wants = "key" if open_[-1] == "{" else "value"
            elif kind == "mark" and word == ":" and wants == "colon":
                wants = "value"
            elif kind == "text" and wants in {"key", "first key"}:
                builder.scalar(self._string(word, place), place)
                wants = "colon"
            elif kind != "mark" and wants in {"value", "first item"}:
                builder.scalar(self._value(kind, word, place), place)
                wants = "comma"
            else:
                self._unexpected(word, place)
            if not open_:
                return _Document(builder.result, index, builder.place, tuple(builder.item_places))

    def _token(self) -> tuple[str, str, _Place]:
        found = _JSON_TOKEN.match(self._text, self._at)
        if found is None:
            self.at_end()
            rest = self._text[self._at : self._at + 20].split("\n")[0]
            what = f"unexpected {rest!r}" if rest else "the text ends too early"
            self._refuse(self._here(), what)
        kind = str(found.lastgroup)
        self._advance(found.start(kind))
        place = self._here()
        self._at = found.end()
        return kind, found[kind], place

    def _value(self, kind: str, word: str, place: _Place) -> Any:
        if kind == "text":
            return self._string(word, place)
        if kind == "name":
            return _JSON_WORDS[word]
        if word.lstrip("-").isdigit() and len(word) <= _LONGEST_INTEGER and -(2**63) <= int(word) < 2**63:
            return int(word)
        value = float(word)
        return int(value) if value.is_integer() and abs(value) < 1e18 else value

    def _string(self, word: str, place: _Place) -> str:
        def unescaped(found: re.Match[str]) -> str:
            code, letter = found.groups()
            if code is None and letter not in _JSON_ESCAPES:
                _fail(place, f"not JSON: \\{letter} is not an escape", "write \\\\ for a backslash")
            return chr(int(code, 16)) if code else _JSON_ESCAPES[letter]

        text = word[1:-1]
        if "\\" not in text:
            return text
        joined = (
            _JSON_ESCAPE.sub(unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
        return _LONE_SURROGATE.sub("\ufffd", joined)

    def _advance(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._line_start = max(self._line_start, self._text.rfind("\n", self._at, to) + 1)
        self._at = to

    def _here(self) -> _Place:
        return _Place(self._source, self._line, self._at - self._line_start + 1)

    def _unexpected(self, word: str, place: _Place) -> NoReturn:
        self._refuse(place, f"unexpected {word[:20]}")

    def _refuse(self, place: _Place, why: str) -> NoReturn:
        at = f"{place.source}:{place.line}:{place.column}"
        raise _NotJsonError(
            f"{at}: not JSON: {why}", hint="check commas, quotes and brackets before this place"
        )


def _manifests(document: _Document) -> Iterator[Manifest]:
    obj, place = document.value, document.place
    if obj is None:
        return
    if not isinstance(obj, dict):
        found = "a list" if isinstance(obj, list) else repr(obj)[:40]
        _fail(place, f"a manifest is a mapping, not {found}", "start with apiVersion and kind")
    items = obj.get("items")
    if obj.get("kind") != "List" or not isinstance(items, list):
        yield Manifest(obj, place.source, document.index, place.line)
        return
    for index, item in enumerate(items):
        at = document.item_places[index] if index < len(document.item_places) else place
        if not isinstance(item, dict):
            _fail(at, f"items[{index}] is not a mapping", "each item of a List is an object of its own")
        yield Manifest(item, place.source, document.index, at.line, index)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes what a reader of YAML 1.1 and of YAML 1.2 both read back as it was."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        # The dumper itself falls back to quotes where a block would lose something, like spaces at the end
        # of a line.
        return dumper.represent_scalar(_TAG + "str", text, style="|")
    ambiguous = not text or not isinstance(_resolved(text), str) or _DATE.fullmatch(text)
    return dumper.represent_scalar(_TAG + "str", text, style='"' if ambiguous else None)


_Dumper.add_representer(str, _write_text)


def _first(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {key: obj[key] for key in _FIRST_KEYS if key in obj}


def _error(place: _Place, problem: str, hint: str) -> ManifestError:
    return ManifestError(f"{place.source}:{place.line}:{place.column}: {problem}", hint=hint)


def _fail(place: _Place, problem: str, hint: str) -> NoReturn:
    raise _error(place, problem, hint)
