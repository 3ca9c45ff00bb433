/** Saves content as a file of the browser. */

/** Time for which the browser may read the content, in milliseconds. */
const KEPT = 10_000;

export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT);
}
