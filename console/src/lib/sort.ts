/** The order of a table, as the address has it: the name of a column with the highest value first, or with `_asc` the lowest. */

export interface Sort {
  by: string;
  isAscending: boolean;
}

const ASCENDING = /_asc$/;

/** Reads an order by one of these columns; the usual one, highest first, if it is another. */
export function sortOf(text: string | undefined, columns: object, usual: string): Sort {
  const by = text?.replace(ASCENDING, "") ?? usual;
  return Object.hasOwn(columns, by)
    ? { by, isAscending: ASCENDING.test(text ?? "") }
    : { by: usual, isAscending: false };
}

/** The order after its column is chosen: the reverse if it was chosen before. */
export const toggled = (sort: Sort, by: string): string => (sort.by === by && !sort.isAscending ? `${by}_asc` : by);

export const directionOf = (sort: Sort): "ascending" | "descending" => (sort.isAscending ? "ascending" : "descending");
export const arrowOf = (sort: Sort): string => (sort.isAscending ? " ▴" : " ▾");
