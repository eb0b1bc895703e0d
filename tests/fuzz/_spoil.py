"""What is spoiled, and ways to spoil bytes, plain documents and texts."""

import json
import random
from collections.abc import Callable
from typing import Any

Attempt = Callable[..., int]

TEXT = "canaryQ7Z"
NUMBER = 424_242.171
CANARIES = (TEXT, "canary", "424242")
DOMAIN = """
[columns.x]
type = "numeric"
lower = 0
upper = 500000
cells = 4

[columns.s]
type = "category"
categories = ["a", "=b", "c"]
"""
RELEASED: dict[str, dict[str, Any]] = {
    "dirichlet-process": {"size": 3, "strength": 1.0},
    "perturbed-histogram": {"counts": True},
    "dirichlet-multinomial": {"size": 4},
    "smoothed-histogram": {"size": 4},
    "hierarchical-histogram": {"size": 20},
    "stability-histogram": {"size": 9},
    "gaussian-smoothed-histogram": {"size": 9},
    "subsampled-randomised-response": {"size": 4},
}
ASKED = ("--epsilon", 5, "--delta", 0.01, "--size", 5)
WRITTEN = ("new.csv", "new.certificate.json")
BUDGET = ("--epsilon", "5", "--delta", "0.1", "--accept-poor-utility", "--accept-weak-promise")
EVOLUTION = ["--size", "5", "--param", "steps=2", "--param", "population=6"]


ODD_TEXTS = (
    "", " ", "\x1b]0;title\x07", "a\nb", "\u202eevil", "=cmd|' /C calc'!A0", "x" * 5000, "☃" * 40, "nan", "1e999",
    "-1", "*", "^a$", "../../x", "discreet: frequency", "\ud800", "\x00", "replacement", "null", "\x7f",
)  # fmt: skip
ODD_NUMBERS = (
    0, -1, 1, 2, 10**6, 10**9, 2**31, 2**62, 2**63, 2**64, 10**39, 10**41, -(10**18), 0.0, -0.0, 0.5, 1e-300, 5e-324,
    1e300, -1e300, 1.5, 3,
)  # fmt: skip


def odd(rng: random.Random, depth: int = 0) -> Any:
    """Return any plain value."""
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return rng.choice(ODD_TEXTS)
    if kind in (1, 2):
        return rng.choice(ODD_NUMBERS)
    if kind == 3:
        return rng.choice((None, True, False))
    if kind == 4:
        return rng.random() * 10.0 ** rng.randrange(-5, 12)
    if kind == 5:
        return [odd(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return {rng.choice(ODD_TEXTS): odd(rng, depth + 1) for _ in range(rng.randrange(3))}
    return rng.choice([[[]] * 50, {"a": {"b": {}}}, [0] * 2000])


def spoilt_bytes(rng: random.Random, raw: bytes) -> bytes:
    """Return bytes that were cut, changed, repeated or overwritten."""
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5, 40))):
        at, length = rng.randrange(max(1, len(changed))), rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(6)
        if kind == 0:
            del changed[at : at + length]
        elif kind == 1:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(length))
        elif kind == 2:
            changed[at : at + length] = rng.choice((b"\xff", b"\x00")) * len(changed[at : at + length])
        elif kind == 3:
            changed = changed[:at]
        else:
            changed[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(changed)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a document."""
    found = [path] if path else []
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, part in items:
        found += places(part, (*path, key))
    return found


def spoilt_document(rng: random.Random, document: Any) -> Any:
    """Return a document in which some values were replaced, removed, renamed or scaled."""
    changed = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        paths = places(changed)
        if not paths:
            return changed
        *way, last = rng.choice(paths)
        holder = changed
        for key in way:
            holder = holder[key]
        kind = rng.randrange(6)
        if kind == 0 and isinstance(holder, dict):
            del holder[last]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(ODD_TEXTS)] = holder.pop(last)
        elif kind == 2 and isinstance(holder[last], (int, float)) and not isinstance(holder[last], bool):
            holder[last] = holder[last] * rng.choice((-1, 0, 2, 10, 1000, 10**9, 0.5, 1e-9, 1e30))
        else:
            holder[last] = odd(rng)
    return changed


def as_json(rng: random.Random, document: Any) -> bytes:
    """Write a document as JSON, now and then as something that is nearly JSON."""
    text = json.dumps(document)
    kind = rng.randrange(12)
    if kind == 0:
        return spoilt_bytes(rng, text.encode())
    if kind == 1:
        return text.replace("0.01", rng.choice(("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000))).encode()
    if kind == 2:
        return ("[" * 100_000 + "]" * 100_000).encode() if rng.random() < 0.5 else text.encode("utf-16")
    if kind == 3:
        return text.replace("{", '{"records": 1, "records": 2, ', 1).encode()
    if kind == 4:
        return text.replace('"guarantee"', '"\\u001b]0;owned\\u0007"', 1).encode()
    return text.encode()
