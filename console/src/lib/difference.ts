/** Paths at which two JSON values differ. */

export interface Change {
  path: string;
  before: unknown;
  after: unknown;
}

/** Maximum number of differences that are listed. */
const MAX = 500;

export function differences(before: unknown, after: unknown): Change[] {
  const found: Change[] = [];
  compare("", before, after, found);
  return found;
}

function compare(path: string, before: unknown, after: unknown, found: Change[]): void {
  if (before === after || MAX <= found.length) return;
  if (!isNested(before) || !isNested(after) || Array.isArray(before) !== Array.isArray(after)) {
    if (JSON.stringify(before) !== JSON.stringify(after)) found.push({ path, before, after });
    return;
  }
  const [left, right] = [before as Record<string, unknown>, after as Record<string, unknown>];
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
    compare(path ? `${path}.${name}` : name, left[name], right[name], found);
  }
}

const isNested = (value: unknown): boolean => value !== null && typeof value === "object";
