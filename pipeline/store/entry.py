"""The bytes of one stored episode, and the check that they are whole and belong to their name.

Line 1 `cir-episode/1 <sha256 of all that follows>`; line 2 canonical JSON {inputs, key, size}; then the row's canonical
JSON (`size` bytes), zstd. Entries are verified on every read, so nothing else about the folder has to be trusted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pipeline.records.canonical import bytes_sha256, canonical_json, digest

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
MAGIC = b"cir-episode/%d " % FORMAT
SUFFIX = ".episode"
_HEAD = len(MAGIC) + 64 + 1


class Damaged(Exception):
    """The bytes are no whole entry of that key; the message says what is wrong with them."""


@dataclass(frozen=True)
class Entry:
    """A stored episode: what it is keyed by, and its row."""

    key: str
    inputs: dict[str, Any]
    row: dict[str, Any]


def key_of(inputs: Mapping[str, Any]) -> str:
    """The key: sha256 (64 hex digits) of the inputs and the entries' format."""
    return digest({"format": FORMAT, "inputs": inputs})


def is_key(name: str) -> bool:
    """Whether a text has the form of a key."""
    return len(name) == 64 and set(name) <= set("0123456789abcdef")


def encode(inputs: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    """The entry's bytes. Raises ValueError or TypeError for a row that is no JSON: a fault of the caller."""
    payload = canonical_json(row).encode()
    head = canonical_json({"inputs": inputs, "key": key_of(inputs), "size": len(payload)}).encode()
    body = head + b"\n" + _zstd().compress(payload, asbytes=True)
    return MAGIC + bytes_sha256(body).encode() + b"\n" + body


def decode(data: bytes, key: str) -> Entry:
    """The entry of that key in its bytes. Raises Damaged unless they are exactly what `encode` made for it."""
    if not data.startswith(MAGIC):
        raise Damaged("is empty" if not data else "is no episode of this format")
    body = data[_HEAD:]
    # The checksum covers all that is parsed below, so a damaged size or frame never reaches the decompressor.
    if bytes_sha256(body).encode() != data[len(MAGIC) : _HEAD - 1] or data[_HEAD - 1 : _HEAD] != b"\n":
        raise Damaged("does not have the checksum that it names")
    try:
        head, _, packed = body.partition(b"\n")
        named = json.loads(head)
        inputs, size = named["inputs"], named["size"]
        row = json.loads(_zstd().decompress(packed, decompressed_size=size, asbytes=True))
    except (ValueError, KeyError, TypeError, OSError) as error:  # Arrow's own are of these kinds
        raise Damaged(f"cannot be unpacked ({error})") from error
    if named.get("key") != key or key_of(inputs) != key:
        raise Damaged("belongs to another key")
    return Entry(key, inputs, row)


@cache
def _zstd() -> "pa.Codec":
    # Imported late: worker processes read this module and never an entry.
    import pyarrow as pa

    return pa.Codec("zstd")
