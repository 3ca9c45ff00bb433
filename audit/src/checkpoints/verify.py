#!/usr/bin/env python3
"""Checks the thread in this folder without turnfold.

    python3 verify.py [NAME+ID+KEY ...]

The arguments are the keys that may have signed the checkpoint. Ends with 0: intact, 1: tampered, 6: not checked, which
is also what it says where a file cannot be read or the package is missing; a file that is gone or garbled is tampered with.
Needs Python 3.8 or newer and the package `cryptography`.
"""
import base64
import hashlib
import json
import math
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
# The name of a key: no plus, and no character of Unicode's property White_Space.
NAME = "[^+\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"


class Tampered(Exception):
    pass


class NotChecked(Exception):
    pass


def unique(pairs):
    if len(dict(pairs)) != len(pairs):
        raise Tampered("an object has the same key twice, of which two readers may take different ones")
    return dict(pairs)


def integer(text):
    number = float(text)
    return number if text == "-0" or math.isinf(number) else int(text)


decode = json.JSONDecoder(object_pairs_hook=unique, parse_int=integer).decode


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def parse(text):
    value = decode(text)
    # Refuses halves of Unicode characters, and numbers that are none or too large.
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    if depth(value) > 127:
        raise Tampered("the nesting is too deep")
    return value


def whole(number, least=0, most=2**64 - 1):
    """An integer of this range, and no other type that Python takes for one."""
    if type(number) is not int or not least <= number <= most:
        raise Tampered(f"{number!r} is no integer, or out of range")
    return number


def unhex(text):
    if type(text) is not str or not re.fullmatch("[0-9a-f]{64}", text, re.ASCII):
        raise Tampered(f"{text!r} is not 64 lower-case hexadecimal digits")
    return bytes.fromhex(text)


def unbase64(text):
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise Tampered(f"{text!r} has another spelling in Base64")
    return data


def string(value):
    if type(value) is not str:
        raise Tampered(f"{value!r} is no text")
    return value


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def chain():
    """The hashes of the events, made anew from what they say."""
    hashes, events, attached, head = [], [], [], bytes(32)
    for line in (HERE / "events.jsonl").open(encoding="utf-8", newline="\n"):
        it, n = parse(line), len(hashes)
        if whole(it["seq"]) != n:
            raise Tampered(f"event {n} is missing: the next one is {it['seq']}")
        number, time = n.to_bytes(8, "big"), whole(it["at"], -(2**63), 2**63 - 1).to_bytes(8, "big", signed=True)
        kind, payload = string(it["kind"]), string(it["payload"])
        if "\0" in kind:
            raise Tampered(f"the kind of event {n} contains a zero byte")
        head = sha256(head, number, time, kind.encode(), b"\0", payload.encode())
        if head != unhex(it["hash"]):
            raise Tampered(f"event {n} does not fit the events before it")
        hashes.append(head)
        events.append((string(it["codec"]), string(it["thread"])))
        attached += [(n, one["sha256"]) for one in attachments(payload)]
    return hashes, events, attached


def attachments(payload):
    """The images and files of an event: those of its messages, and those of a tool's answer."""
    event = fields(parse(payload))
    for message in listed(event.get("messages")):
        yield from map(fields, listed(fields(message).get("attachments")))
    extras = event.get("extras")
    for content in [] if extras is None else listed(fields(extras).get("content")):
        if fields(content).get("content") == "attached":
            yield fields(content.get("attachment"))


def fields(value):
    if type(value) is not dict:
        raise Tampered("something is no object")
    return value


def listed(value):
    if value is not None and type(value) is not list:
        raise Tampered("something is no list")
    return value or []


def check_attachments(attached):
    for n, name in attached:
        unhex(name)
        try:
            content = (HERE / "attachments" / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise Tampered(f"the attachment {name} of event {n} is missing") from None
        if sha256(content).hex() != name:
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
        key = unbase64(key)
        fits = key[0] == 1 and len(key) == 33 and re.fullmatch(NAME, name)
        if not fits or sha256(name.encode(), b"\n", key)[:4].hex() != number:
            raise ValueError
    except (ValueError, IndexError, Tampered):
        raise NotChecked("that is no key: it reads NAME+ID+KEY, as `turnfold audit key show` prints it") from None
    text, signatures = note
    for who, signature in signatures:
        if who == name and signature[:4].hex() == number:
            try:
                Ed25519PublicKey.from_public_bytes(key[1:]).verify(signature[4:], text.encode())
                return text.split("\n")[0] == name
            except InvalidSignature:
                return False
    return False


def opened(note):
    """The text of a note, and its signatures with the names of their keys."""
    text, empty, lines = note.rpartition("\n\n")
    if not text or not lines.endswith("\n") or any(char < " " and char != "\n" for char in note):
        raise Tampered("the checkpoint is no signed note")
    signatures = []
    for line in lines[:-1].split("\n"):
        found = re.fullmatch(f"\u2014 ({NAME}) ([^ ]+)", line)
        if not found or len(unbase64(found[2])) < 5:
            raise Tampered("a signature of the checkpoint is no signature")
        signatures.append((found[1], unbase64(found[2])))
    return text + "\n", signatures


def check(vkeys):
    hashes, stored, attached = chain()
    check_attachments(attached)
    if not (HERE / "proof.json").exists():
        raise NotChecked(f"{len(hashes)} events fit each other; nothing here attests that they are the ones")
    proof = fields(parse((HERE / "proof.json").read_bytes().decode()))
    note = opened((HERE / "checkpoint").read_bytes().decode())
    thread, events = string(proof["thread"]), whole(proof["events"], 1)
    if not re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", thread, re.ASCII):
        raise Tampered("the thread is no UUID")
    if len(hashes) < events:
        raise Tampered(f"events {len(hashes)} to {events - 1} are cut off: {events} were attested")
    if hashes[events - 1] != unhex(proof["head"]):
        raise Tampered(f"events 0 to {events - 1} are not those of the proof: changed, and hashed anew")
    if any(codec != "json" for codec, _ in stored[:events]):
        raise Tampered("an event says that it is not stored as json: it was attested as that")
    if any(of != thread for _, of in stored):
        raise Tampered("an event is of another thread")
    leaf = f"{thread} {events} {proof['head']}"
    origin, size, attested = (note[0].split("\n") + ["", ""])[:3]
    if not re.fullmatch("0|[1-9][0-9]{0,19}", size, re.ASCII):
        raise Tampered("the number of heads is no number")
    if type(proof["path"]) is not list:
        raise Tampered("the path is no list")
    path = [unhex(it) for it in proof["path"]]
    made = root(sha256(b"\0", leaf.encode()), whole(proof["leaf"]), whole(int(size)), path)
    if made != unbase64(attested):
        raise Tampered("the checkpoint does not attest this head of this thread")
    if not vkeys:
        raise NotChecked(f"{events} events are as the checkpoint attests; who signed it: give the key as argument")
    if not any([signed(note, vkey) for vkey in vkeys]):
        raise Tampered("the checkpoint is not signed by that key")
    later = len(hashes) - events
    print(f"intact: events 0 to {events - 1} of thread {thread} are as {origin} attests")
    if later:
        print(f"not checked against it: {later} later events, whose hashes fit each other")


if __name__ == "__main__":
    # A name that the terminal has no letters for is no reason to fail.
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        check(sys.argv[1:])
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
