/* The behaviour of a saved run: its slider, the stored bytes of each event, and the verification of the hash chain. */
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const [log, states, attachments] = ["log", "states", "attachments"].map(read);
const slider = document.querySelector("nav input");
const shown = (text) =>
  text.replace(/(?![\n\t])[\p{C}\p{Zl}\p{Zp}]/gu, (it) => `\\u{${it.codePointAt(0).toString(16)}}`);

function show(seq) {
  slider.value = seq;
  document.getElementById("place").textContent = `event ${seq} of ${log.length - 1}`;
  for (const it of document.querySelectorAll("[data-seq]")) {
    it.classList.toggle("later", seq < Number(it.dataset.seq));
    it.classList.toggle("at", seq === Number(it.dataset.seq) && it.classList.contains("event"));
  }
  const [, state] = states.findLast(([from]) => from <= seq) ?? [];
  document.getElementById("state").textContent =
    state === undefined ? "Not in this page." : shown(JSON.stringify(state, null, 2));
}

function open(details) {
  const [, , , payload] = log[Number(details.closest("[data-seq]").dataset.seq)];
  details.querySelector("pre").textContent = shown(JSON.stringify(JSON.parse(payload), null, 2));
}

const hex = (bytes) => Array.from(bytes, (it) => it.toString(16).padStart(2, "0")).join("");
const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/* Each hash covers the one before, the number and the time of the event (eight bytes each), its kind, a zero and its bytes. */
async function broken() {
  let before = new Uint8Array(32);
  for (const [seq, at, kind, payload, hash] of log) {
    const text = new TextEncoder().encode(`${kind}\0${payload}`);
    const bytes = new Uint8Array(48 + text.length);
    const view = new DataView(bytes.buffer);
    bytes.set(before);
    view.setBigUint64(32, BigInt(seq));
    view.setBigInt64(40, BigInt(at));
    bytes.set(text, 48);
    before = await digest(bytes);
    if (hex(before) !== hash) return `The hash chain is broken at event ${seq}: this page or the log was changed.`;
  }
  for (const { sha256, content } of attachments) {
    const bytes = Uint8Array.from(atob(content), (it) => it.charCodeAt(0));
    if (hex(await digest(bytes)) !== sha256) return `The attachment ${sha256} was changed.`;
  }
  return "";
}

async function verify() {
  const place = document.getElementById("proof");
  if ("redacted" in document.documentElement.dataset) {
    place.textContent = "This page has no contents, so it cannot verify the hash chain.";
    return;
  }
  const problem = globalThis.crypto?.subtle
    ? await broken()
    : "This browser verifies only pages that are opened from a file.";
  place.className = problem ? "bad" : "good";
  place.textContent =
    problem || `The hash chain over ${log.length} events is intact. This browser has just computed it.`;
}

slider.addEventListener("input", () => show(Number(slider.value)));
document.addEventListener("click", (it) => {
  const button = it.target.closest("button[data-to]");
  if (button) show(Number(button.dataset.to));
});
document.addEventListener("toggle", (it) => it.target.open && it.target.closest(".event") && open(it.target), true);
show(log.length - 1);
verify();
