#!/usr/bin/env python3
"""Checks the thread in this folder without turnfold.

    python3 verify.py [NAME+ID+KEY]

The argument is the key that checks the checkpoint's signature. Ends with 0: intact, 1: tampered, 6: not checked, which
is also what it says where a file cannot be read or the package is missing; a file that is gone or garbled is tampered with.
Needs Python 3.8 or newer and the package `cryptography`.
"""
import base64
import hashlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Tampered(Exception):
    pass


class NotChecked(Exception):
    pass


def unique(pairs):
    if len(dict(pairs)) != len(pairs):
        raise Tampered("an object has the same key twice, of which two readers may take different ones")
    return dict(pairs)


parse = json.JSONDecoder(object_pairs_hook=unique).decode


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def chain():
    """The hashes of the events, made anew from what they say."""
    hashes, codecs, attached, head = [], [], [], bytes(32)
    for line in (HERE / "events.jsonl").open(encoding="utf-8", newline="\n"):
        it, n = parse(line), len(hashes)
        if it["seq"] != n:
            raise Tampered(f"event {n} is missing: the next one is {it['seq']}")
        number, time = n.to_bytes(8, "big"), it["at"].to_bytes(8, "big", signed=True)
        head = sha256(head, number, time, it["kind"].encode(), b"\0", it["payload"].encode())
        if head.hex() != it["hash"]:
            raise Tampered(f"event {n} does not fit the events before it")
        hashes.append(head)
        codecs.append(it["codec"])
        attached += [(n, one["sha256"]) for one in attachments(it["payload"])]
    return hashes, codecs, attached


def attachments(payload):
    """The images and files of an event: those of its messages, and those of a tool's answer."""
    event = parse(payload)
    for message in event.get("messages") or []:
        yield from message.get("attachments") or []
    for content in (event.get("extras") or {}).get("content") or []:
        if content.get("content") == "attached":
            yield content["attachment"]


def check_attachments(attached):
    for n, name in attached:
        file = HERE / "attachments" / name
        if len(name) != 64 or not file.is_file():
            raise Tampered(f"the attachment {name} of event {n} is missing")
        if sha256(file.read_bytes()).hex() != name:
            raise Tampered(f"the attachment {name} of event {n} was changed")


def root(leaf, n, size, path):
    """The root of a tree of `size` leaves, of which `leaf` is number `n` (RFC 9162, 2.1.3.2)."""
    if not 0 <= n < size:
        raise Tampered("the leaf is outside of the tree")
    last, node = size - 1, leaf
    for sibling in path:
        if last == 0:
            raise Tampered("the path is too long")
        if n & 1 or n == last:
            node = sha256(b"\1", sibling, node)
            while n and not n & 1:
                n, last = n >> 1, last >> 1
        else:
            node = sha256(b"\1", node, sibling)
        n, last = n >> 1, last >> 1
    if last:
        raise Tampered("the path is too short")
    return node


def signed(note, vkey):
    """Whether the key signed the note, as C2SP signed-note has it."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as why:
        raise NotChecked(f"who signed it: that needs the package `cryptography` ({why})") from None
    try:
        name, number, key = vkey.split("+", 2)
        key = base64.b64decode(key, validate=True)
        fits = key[0] == 1 and len(key) == 33
        if not fits or sha256(name.encode(), b"\n", key)[:4].hex() != number:
            raise ValueError
    except (ValueError, IndexError):
        raise NotChecked("that is no key: it reads NAME+ID+KEY, as `turnfold audit key show` prints it") from None
    text, _, lines = note.rpartition("\n\n")
    text += "\n"
    for line in lines.splitlines():
        dash, who, signature = line.split(" ")
        signature = base64.b64decode(signature)
        if dash == "\u2014" and who == name and signature[:4].hex() == number:
            try:
                Ed25519PublicKey.from_public_bytes(key[1:]).verify(signature[4:], text.encode())
                return text.split("\n")[0] == name
            except InvalidSignature:
                return False
    return False


def check(vkey):
    hashes, codecs, attached = chain()
    check_attachments(attached)
    if not (HERE / "proof.json").exists():
        raise NotChecked(f"{len(hashes)} events fit each other; nothing here attests that they are the ones")
    proof = parse((HERE / "proof.json").read_text(encoding="utf-8"))
    note = (HERE / "checkpoint").read_bytes().decode()
    events = proof["events"]
    if len(hashes) < events:
        raise Tampered(f"events {len(hashes)} to {events - 1} are cut off: {events} were attested")
    if events < 1 or hashes[events - 1].hex() != proof["head"]:
        raise Tampered(f"events 0 to {events - 1} are not those of the proof: changed, and hashed anew")
    if any(it != "json" for it in codecs[:events]):
        raise Tampered("an event says that it is not stored as json: it was attested as that")
    leaf = f"{proof['thread']} {events} {proof['head']}"
    _, size, attested = note.split("\n")[:3]
    path = [bytes.fromhex(it) for it in proof["path"]]
    made = root(sha256(b"\0", leaf.encode()), proof["leaf"], int(size), path)
    if made != base64.b64decode(attested):
        raise Tampered("the checkpoint does not attest this head of this thread")
    if vkey is None:
        raise NotChecked(f"{events} events are as the checkpoint attests; who signed it: give the key as argument")
    if not signed(note, vkey):
        raise Tampered("the checkpoint is not signed by that key")
    later = len(hashes) - events
    print(f"intact: events 0 to {events - 1} of thread {proof['thread']} are as {note.split(chr(10))[0]} attests")
    if later:
        print(f"not checked against it: {later} later events, whose hashes fit each other")


if __name__ == "__main__":
    # A name that the terminal has no letters for is no reason to fail.
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        check(sys.argv[1] if len(sys.argv) > 1 else None)
    except Tampered as why:
        sys.exit(print(f"tampered: {why}") or 1)
    except NotChecked as why:
        sys.exit(print(f"not checked: {why}") or 6)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, FileNotFoundError) as why:
        sys.exit(print(f"tampered: the folder is not as it was exported: {why!r}") or 1)
    except OSError as why:
        sys.exit(print(f"not checked: something cannot be read: {why}") or 6)
    except Exception as why:
        sys.exit(print(f"not checked: {why!r}") or 6)
