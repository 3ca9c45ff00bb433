/** The order of a table, as the address has it: the name of a column in its usual direction, or with `_reversed` the other. */

export interface Sort {
  by: string;
  isReversed: boolean;
}
type Direction = "ascending" | "descending";

const REVERSED = /_reversed$/;

/** Reads an order by one of these columns; the usual one if it is another. */
export function sortOf(text: string | undefined, columns: object, usual: string): Sort {
  const by = text?.replace(REVERSED, "") ?? usual;
  return Object.hasOwn(columns, by) ? { by, isReversed: REVERSED.test(text ?? "") } : { by: usual, isReversed: false };
}

/** The order after its column is chosen: the reverse if it was chosen before. */
export const toggled = (sort: Sort, by: string): string => (sort.by === by && !sort.isReversed ? `${by}_reversed` : by);

/** The direction of an order whose column has a usual one. */
export function directionOf({ isReversed }: Sort, usual: Direction = "descending"): Direction {
  return isReversed === (usual === "descending") ? "ascending" : "descending";
}

export const arrowOf = (direction: Direction): string => (direction === "ascending" ? " ▴" : " ▾");
