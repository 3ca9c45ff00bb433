/** The behaviour of a saved run: its slider, the stored bytes of each event, and the verification of the hash chain. */
import { printable } from "../lib/printable.ts";

/** Number of an event, its time in microseconds, its kind, its stored bytes and its hash. */
export type Row = [number, number, string, string, string];
/** The event after which a state is new, and the state. Without one, the states from there on are not in the page. */
export type State = [number, unknown?];
export interface Attachment {
  sha256: string;
  content: string;
}

const place = (id: string): HTMLElement => document.getElementById(id)!;

/** The stored bytes, indented if that alone changes them: a number or a field that JSON would write otherwise stays as it is. */
function stored(bytes: string): string {
  try {
    const value: unknown = JSON.parse(bytes);
    return printable(JSON.stringify(value) === bytes ? JSON.stringify(value, null, 2) : bytes);
  } catch {
    return printable(bytes);
  }
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (it) => it.toString(16).padStart(2, "0")).join("");
const digest = async (bytes: Uint8Array<ArrayBuffer>) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** Each hash covers the one before, the number and the time of the event (eight bytes each), its kind, a zero and its bytes. */
async function broken(log: Row[], attachments: Attachment[]): Promise<string> {
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

async function verify(log: Row[], attachments: Attachment[]): Promise<void> {
  const problem = globalThis.crypto?.subtle
    ? await broken(log, attachments).catch((error: unknown) => `The hash chain could not be verified: ${error}`)
    : "This browser verifies only pages that are opened from a file.";
  place("proof").className = problem ? "bad" : "good";
  place("proof").textContent =
    problem || `The hash chain over ${log.length} events is intact. This browser has just computed it.`;
}

export function behave(log: Row[], states: State[], attachments: Attachment[], isRedacted: boolean): void {
  const slider = document.querySelector<HTMLInputElement>("nav input")!;
  function show(seq: number) {
    slider.value = String(seq);
    place("place").textContent = `event ${seq} of ${log.length - 1}`;
    for (const it of document.querySelectorAll<HTMLElement>("[data-seq]")) {
      const own = Number(it.dataset.seq);
      it.classList.toggle("later", seq < own);
      it.classList.toggle("at", seq === own && it.classList.contains("event"));
    }
    const [, state] = states.findLast(([from]) => from <= seq) ?? [];
    place("state").textContent = state === undefined ? "Not in this page." : printable(JSON.stringify(state, null, 2));
  }
  function open(details: HTMLElement) {
    const seq = details.closest<HTMLElement>("[data-seq]")!.dataset.seq;
    details.querySelector("pre")!.textContent = stored(log[Number(seq)][3]);
  }
  slider.addEventListener("input", () => show(Number(slider.value)));
  document.addEventListener("click", (it) => {
    const button = (it.target as HTMLElement).closest<HTMLElement>("button[data-to]");
    if (button) show(Number(button.dataset.to));
  });
  const toggled = ({ target }: Event) => {
    const it = target as HTMLDetailsElement;
    if (it.open && it.closest(".event")) open(it);
  };
  document.addEventListener("toggle", toggled, true);
  show(log.length - 1);
  if (isRedacted) place("proof").textContent = "This page has no contents, so it cannot verify the hash chain.";
  else void verify(log, attachments);
}
