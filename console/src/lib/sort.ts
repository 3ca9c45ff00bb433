/** The order of a list or table, as the address and the API have it: a column with the highest first, or with `_asc` the lowest. */

export interface Sort {
  by: string;
  isRising: boolean;
}
/** Columns by their names. One that usually rises begins with the lowest, and has `_desc` for the highest. */
type Columns = Record<string, { name: string; rises?: boolean }>;

/** Reads an order; the usual one if it is by another column. In views that were saved earlier, `_reversed` is the less usual direction. */
export function sortOf(text: string | undefined, usual: string, columns?: Columns): Sort {
  const [, by, end] = /^(.*?)(?:_(asc|desc|reversed))?$/s.exec(text ?? usual)!;
  if (columns && !Object.hasOwn(columns, by)) return sortOf(usual, usual, columns);
  const rises = columns?.[by].rises ?? false;
  return { by, isRising: end === "reversed" ? !rises : end ? end === "asc" : rises };
}

/** The order after its column is chosen: the other direction if it was chosen before. */
export function toggled(sort: Sort, by: string, rises = false): string {
  if (sort.by !== by || sort.isRising !== rises) return by;
  return `${by}_${rises ? "desc" : "asc"}`;
}

/** The sign of an order in the heading of a column: its direction, if it is by this column, also as an arrow. */
export function shownBy(
  { by, isRising }: Sort,
  column: string,
): { direction?: "ascending" | "descending"; arrow: string } {
  if (by !== column) return { arrow: "" };
  return isRising ? { direction: "ascending", arrow: " ▴" } : { direction: "descending", arrow: " ▾" };
}
