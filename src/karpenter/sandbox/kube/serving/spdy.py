# SPDX-License-Identifier: Apache-2.0
"""The part of SPDY/3.1 that ``kubectl port-forward`` speaks: frames, and streams over one connection.

Pure: bytes go in, events come out, and the other way round. Windows are not kept, as clients of Kubernetes keep none.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Data", "Framing", "Opened", "Ping", "Reset"]

_VERSION: Final = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_FIN: Final = 0x01
_HEAD: Final = struct.Struct(">II")
_CANCEL: Final = 5
_LONGEST: Final = 0xFFFFFF

# The dictionary that the protocol's headers are compressed with: words with their lengths, then a text.
_WORDS: Final = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200_OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
]
_TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(each)) + each.replace("_", " ").encode() for each in _WORDS)
    + _TEXT.encode()
)


@dataclass(frozen=True, slots=True)
class Opened:
    """The other side has opened a stream."""

    stream: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; ``is_last`` where the other side sends no more of it."""

    stream: int
    content: bytes
    is_last: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The other side has given a stream up."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The other side wants to hear the same number back."""

    number: int


class Framing:
    """The frames of one connection, in both directions."""

    def __init__(self) -> None:
        self._rest = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def feed(self, content: bytes) -> Iterator[Opened | Data | Reset | Ping]:
        """Yield what bytes that have arrived tell; what is not whole yet is told when it is."""
        self._rest += content
        while len(self._rest) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._rest)
            flags, size = second >> 24, second & _LONGEST
            if len(self._rest) < _HEAD.size + size:
                return
            body = self._rest[_HEAD.size : _HEAD.size + size]
            self._rest = self._rest[_HEAD.size + size :]
            if not first >> 31:
                yield Data(first & 0x7FFFFFFF, body, bool(flags & _FIN))
            else:
                yield from self._control(first & 0xFFFF, flags, body)

    def reply(self, stream: int) -> bytes:
        """Return the frame by which a stream is accepted."""
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack(">I", stream) + block)

    def data(self, stream: int, content: bytes, *, is_last: bool = False) -> bytes:
        """Return the frame for bytes of a stream, at most 16 MiB of them."""
        return _HEAD.pack(stream, (_FIN if is_last else 0) << 24 | len(content)) + content

    def reset(self, stream: int) -> bytes:
        """Return the frame by which a stream is given up."""
        return _control(_RST_STREAM, struct.pack(">II", stream, _CANCEL))

    def pong(self, ping: Ping) -> bytes:
        """Return the answer to a ping."""
        return _control(_PING, struct.pack(">I", ping.number))

    def _control(self, kind: int, flags: int, body: bytes) -> Iterator[Opened | Data | Reset | Ping]:
        if kind == _SYN_STREAM:
            stream = int(struct.unpack_from(">I", body)[0]) & 0x7FFFFFFF
            # After the stream: the one that it belongs to, its priority and its slot.
            yield Opened(stream, self._headers(body[10:]))
            if flags & _FIN:
                yield Data(stream, b"", is_last=True)
        elif kind == _RST_STREAM:
            yield Reset(int(struct.unpack_from(">I", body)[0]) & 0x7FFFFFFF)
        elif kind == _PING:
            yield Ping(int(struct.unpack_from(">I", body)[0]))

    def _headers(self, block: bytes) -> dict[str, str]:
        raw = self._inflate.decompress(block)
        (count,) = struct.unpack_from(">I", raw)
        found, at, texts = {}, 4, list[str]()
        for _ in range(2 * count):
            (size,) = struct.unpack_from(">I", raw, at)
            texts.append(raw[at + 4 : at + 4 + size].decode("utf-8", "replace"))
            at += 4 + size
        for name, value in zip(texts[::2], texts[1::2], strict=True):
            found[name.lower()] = value
        return found


def _control(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(1 << 31 | _VERSION << 16 | kind, len(body)) + body
