#!/usr/bin/env node
// Checks the thread in this folder without turnfold.
//
//     node verify.mjs [NAME+ID+KEY …]
//
// The arguments are the keys that may have signed the checkpoint. Ends with 0: intact, 1: tampered, 6: not checked.
// Written from docs/proofs.md alone, on WebCrypto: `check` also runs in a browser. Needs Node 20 or newer.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const DEPTH_MAX = 127;

export class Tampered extends Error {}
export class NotChecked extends Error {}

/** Parses JSON (RFC 8259). Integers become BigInt; an object with the same key twice is an error. */
export function parse(text) {
  let at = 0;
  const fail = (what) => {
    throw new Tampered(`no JSON at character ${at}: ${what}`);
  };
  const token = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found?.[0];
  };
  const space = () => token(/[ \t\n\r]*/y);
  const string = () => {
    if (text[at] !== '"') fail("a string is expected");
    // A regular expression would need a stack as long as the string.
    let end = at + 1;
    while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
    let value;
    try {
      value = JSON.parse(text.slice(at, end + 1));
    } catch {
      fail("a string is expected");
    }
    at = end + 1;
    return value.isWellFormed() ? value : fail("a string is not Unicode");
  };
  const items = (open, close, item) => {
    at += open.length;
    space();
    if (text[at] === close) return void at++;
    for (;;) {
      space();
      item();
      space();
      if (text[at] === close) return void at++;
      if (text[at++] !== ",") fail("a comma is expected");
    }
  };
  const value = (depth) => {
    if (depth > DEPTH_MAX && "[{".includes(text[at] || " ")) fail("the nesting is too deep");
    switch (text[at]) {
      case "{": {
        const object = new Map();
        items("{", "}", () => {
          const key = string();
          if (object.has(key)) fail("an object has the same key twice");
          space();
          if (text[at++] !== ":") fail("a colon is expected");
          space();
          object.set(key, value(depth + 1));
        });
        return object;
      }
      case "[": {
        const array = [];
        items("[", "]", () => array.push(value(depth + 1)));
        return array;
      }
      case '"':
        return string();
    }
    const word = token(/true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y) ?? fail("a value is expected");
    if (word === "true" || word === "false") return word === "true";
    if (word === "null") return null;
    if (!Number.isFinite(Number(word))) fail("a number is out of range");
    return /^(0|-?[1-9][0-9]*)$/.test(word) ? BigInt(word) : Number(word);
  };
  space();
  const parsed = value(1);
  space();
  return at === text.length ? parsed : fail("there is more after the value");
}

const bytes = (text) => new TextEncoder().encode(text);
const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");

async function sha256(...parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((end, part) => (all.set(part, end), end + part.length), 0);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", all));
}

function is(condition, what) {
  if (!condition) throw new Tampered(what);
}

const text = (value, what) => (is(typeof value === "string", `${what} is no text`), value);

function integer(value, least, most, what) {
  is(typeof value === "bigint" && least <= value && value <= most, `${what} is no integer, or out of range`);
  return value;
}

function fromHex(value, what) {
  is(/^[0-9a-f]{64}$/.test(text(value, what)), `${what} is not 64 lower-case hexadecimal digits`);
  return Uint8Array.from(value.match(/../g), (pair) => parseInt(pair, 16));
}

/** Decodes Base64 with padding; there is one spelling of each value. */
function fromBase64(value, what) {
  let binary = null;
  try {
    binary = atob(value);
  } catch {
    // The check below says it.
  }
  is(binary !== null && btoa(binary) === value, `${what} is not Base64`);
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

const object = (value, what) => (is(value instanceof Map, `${what} is no object`), value);
const list = (value, what) => (value == null ? [] : (is(Array.isArray(value), `${what} is no list`), value));
const wide = (number) => {
  const field = new Uint8Array(8);
  new DataView(field.buffer).setBigUint64(0, BigInt.asUintN(64, number));
  return field;
};

const U64 = (1n << 64n) - 1n;
const I64 = (1n << 63n) - 1n;

/** Step 1: the events, their hashes, and the attachments that they name. */
async function chain(file) {
  const lines = utf8.decode(file).split("\n");
  if (lines.at(-1) === "") lines.pop();
  const events = [];
  let head = new Uint8Array(32);
  for (const line of lines) {
    const event = object(parse(line), "an event");
    const n = BigInt(events.length);
    is(integer(event.get("seq"), 0n, U64, "seq") === n, `event ${n} is missing: the next one is ${event.get("seq")}`);
    const at = integer(event.get("at"), -I64 - 1n, I64, "at");
    const [kind, codec, payload] = ["kind", "codec", "payload"].map((name) => text(event.get(name), name));
    is(!kind.includes("\0"), "a kind contains a zero byte");
    head = await sha256(head, wide(n), wide(at), bytes(kind), new Uint8Array(1), bytes(payload));
    is(hex(fromHex(event.get("hash"), "hash")) === hex(head), `event ${n} does not fit the events before it`);
    events.push({ thread: text(event.get("thread"), "thread"), codec, head: hex(head), names: [...named(payload)] });
  }
  return events;
}

function* named(payload) {
  const event = object(parse(payload), "a payload");
  for (const message of list(event.get("messages"), "messages")) {
    for (const one of list(object(message, "a message").get("attachments"), "attachments")) yield object(one, "an attachment").get("sha256");
  }
  const extras = event.get("extras");
  for (const one of list(extras == null ? null : object(extras, "extras").get("content"), "content")) {
    if (object(one, "content").get("content") === "attached") yield object(one.get("attachment"), "an attachment").get("sha256");
  }
}

/** Step 5: the root of a tree of `size` leaves, of which `node` is number `n` (RFC 9162, 2.1.3.2). */
async function root(node, n, size, path) {
  is(n < size, "the leaf is outside of the tree");
  let last = size - 1n;
  for (const sibling of path) {
    is(last !== 0n, "the path is too long");
    if (n & 1n || n === last) {
      node = await sha256(Uint8Array.of(1), sibling, node);
      while (n !== 0n && !(n & 1n)) [n, last] = [n >> 1n, last >> 1n];
    } else {
      node = await sha256(Uint8Array.of(1), node, sibling);
    }
    [n, last] = [n >> 1n, last >> 1n];
  }
  is(last === 0n, "the path is too short");
  return node;
}

/** The name of a key has no plus, and no character of Unicode's property White_Space. */
const isName = (name) => Boolean(name) && !/[+\p{White_Space}]/u.test(name);

/** Splits a note into its text and its signatures, and reads the first three lines. */
function noteOf(file) {
  const whole = utf8.decode(file);
  const end = whole.lastIndexOf("\n\n");
  is(0 < end && whole.endsWith("\n") && !/[\u0000-\u0009\u000b-\u001f]/.test(whole), "the checkpoint is no signed note");
  const signatures = whole.slice(end + 2, -1).split("\n").map((line) => {
    const [dash, name, encoded, ...rest] = line.split(" ");
    const isSignature = dash === "\u2014" && isName(name) && encoded && rest.length === 0;
    is(isSignature, "a signature of the checkpoint is no signature");
    const data = fromBase64(encoded, "a signature");
    is(5 <= data.length, "a signature of the checkpoint has no data");
    return { name, data };
  });
  const signed = whole.slice(0, end + 1);
  const [origin, size, hash] = signed.split("\n");
  is(/^(0|[1-9][0-9]{0,19})$/.test(size ?? ""), "the number of heads is no number");
  const attested = fromBase64(hash ?? "", "the root");
  is(attested.length === 32, "the root has not 32 bytes");
  return { origin, size: integer(BigInt(size), 0n, U64, "the number of heads"), root: attested, signed, signatures };
}

async function keyOf(vkey) {
  const parts = vkey.split("+");
  const [name, id] = parts;
  let data = null;
  try {
    data = fromBase64(parts.slice(2).join("+"), "the key");
  } catch {
    // The check below says it.
  }
  const fits = isName(name) && data?.length === 33 && data[0] === 1 && hex((await sha256(bytes(`${name}\n`), data)).slice(0, 4)) === id;
  if (!fits) throw new NotChecked("that is no key: it reads NAME+ID+KEY, as `turnfold audit key show` prints it");
  const key = await crypto.subtle.importKey("raw", data.slice(1), "Ed25519", false, ["verify"]);
  return { name, id, key };
}

/** Step 6: whether one of the keys signed the note for its own log. */
async function isSigned(note, vkeys) {
  for (const { name, id, key } of await Promise.all(vkeys.map(keyOf))) {
    const own = note.signatures.find((one) => one.name === name && hex(one.data.slice(0, 4)) === id);
    const isValid = own?.data.length === 68 && note.origin === name;
    if (isValid && (await crypto.subtle.verify("Ed25519", key, own.data.slice(4), bytes(note.signed)))) return name;
  }
  return null;
}

/**
 * Checks a folder. `read(name)` resolves to the bytes of a file, or to null if there is none.
 * Resolves to what was checked; throws Tampered or NotChecked.
 */
export async function check(read, vkeys) {
  const need = async (name) => (await read(name)) ?? is(false, `${name} is missing`);
  const events = await chain(await need("events.jsonl"));
  for (const [n, { names }] of events.entries()) {
    for (const name of names) {
      fromHex(name, `the name of an attachment of event ${n}`);
      const content = (await read(`attachments/${name}`)) ?? is(false, `the attachment ${name} of event ${n} is missing`);
      is(hex(await sha256(content)) === name, `the attachment ${name} of event ${n} was changed`);
    }
  }
  const file = await read("proof.json");
  if (!file) throw new NotChecked(`${events.length} events fit each other; nothing here attests that they are the ones`);
  const proof = object(parse(utf8.decode(file)), "the proof");
  const note = noteOf(await need("checkpoint"));
  const thread = text(proof.get("thread"), "thread");
  is(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(thread), "the thread is no UUID");
  const count = integer(proof.get("events"), 1n, U64, "events");
  is(count <= BigInt(events.length), `events ${events.length} to ${count - 1n} are cut off: ${count} were attested`);
  const attested = events.slice(0, Number(count));
  const head = hex(fromHex(proof.get("head"), "head"));
  is(attested.at(-1).head === head, `events 0 to ${count - 1n} are not those of the proof: changed, and hashed anew`);
  is(attested.every((event) => event.codec === "json"), "an event is not stored as json, as it was attested");
  is(events.every((event) => event.thread === thread), "an event is of another thread");
  const leaf = await sha256(new Uint8Array(1), bytes(`${thread} ${count} ${head}`));
  is(Array.isArray(proof.get("path")), "the path is no list");
  const path = proof.get("path").map((one) => fromHex(one, "the path"));
  const made = await root(leaf, integer(proof.get("leaf"), 0n, U64, "leaf"), note.size, path);
  is(hex(made) === hex(note.root), "the checkpoint does not attest this head of this thread");
  if (vkeys.length === 0) throw new NotChecked(`${count} events are as the checkpoint attests; who signed it: give the key as argument`);
  is(await isSigned(note, vkeys), "the checkpoint is not signed by that key");
  const later = events.length - Number(count);
  const rest = later ? `\nnot checked against it: ${later} later events, whose hashes fit each other` : "";
  return `intact: events 0 to ${count - 1n} of thread ${thread} are as ${note.origin} attests${rest}`;
}

/** Runs `check` over the folder of this script. Returns the exit code. */
async function main(vkeys) {
  const { readFile } = await import("node:fs/promises");
  const read = async (name) => {
    try {
      return await readFile(new URL(name, import.meta.url));
    } catch (error) {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return null;
      throw new NotChecked(`something cannot be read: ${error.message}`);
    }
  };
  try {
    console.log(await check(read, vkeys));
    return 0;
  } catch (error) {
    if (error instanceof NotChecked) return console.log(`not checked: ${error.message}`), 6;
    if (error instanceof Tampered) return console.log(`tampered: ${error.message}`), 1;
    // Neither is expected: bytes that are not UTF-8 (TypeError) are not as exported, anything else was not checked.
    if (error instanceof TypeError) return console.log(`tampered: the folder is not as it was exported: ${error.message}`), 1;
    return console.log(`not checked: ${error}`), 6;
  }
}

if (globalThis.process?.versions?.node && process.argv[1]) {
  const { pathToFileURL } = await import("node:url");
  const { realpathSync } = await import("node:fs");
  const isStarted = pathToFileURL(realpathSync(process.argv[1])).href === import.meta.url;
  if (isStarted) process.exitCode = await main(process.argv.slice(2));
}
