/** Checks of what is drawn. */

/** Runs in a page: finds text that is cut off without an ellipsis or a shadow at the edge, and rows that overlap. */
export function cutOff() {
  const found = [];
  for (const it of document.querySelectorAll("body *")) {
    const style = getComputedStyle(it);
    const isText = 2 < it.clientWidth && it.innerText?.trim() && it.checkVisibility();
    if (!isText || style.display === "inline" || it.tagName === "SELECT") continue;
    const isWide = it.clientWidth + 1 < it.scrollWidth;
    const isHigh = it.clientHeight + 2 < it.scrollHeight;
    const hides = (overflow) => overflow === "hidden" || overflow === "clip";
    const cut =
      (isWide && hides(style.overflowX) && style.textOverflow !== "ellipsis") ||
      (isWide && ["auto", "scroll"].includes(style.overflowX) && style.backgroundImage === "none") ||
      (isHigh && hides(style.overflowY) && style.textOverflow !== "ellipsis") ||
      (isHigh && it.style.transform.startsWith("translateY"));
    if (cut) found.push(`cut off without a sign: ${it.outerHTML.slice(0, 160)}`);
  }
  return found;
}
