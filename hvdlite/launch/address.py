"""Addresses as texts, both ways: `host:port`, `[v6]:port`. Pure."""

from __future__ import annotations

Address = tuple[str, int]


def join_address(host: str, port: int | str) -> str:
    """As parse_address() reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str, source: str) -> Address:
    """`host:port` or `[v6]:port`."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{source}={text!r} is not allowed: expected host:port.")
    return host, int(port)


def parse_addresses(text: str, source: str) -> tuple[Address, ...]:
    """One or several of them, separated by commas: the ways to one store."""
    return tuple(parse_address(part, source) for part in text.split(","))
