/** Orders of lists, as the API names them, and their texts. */

export const BY_CREATION = { newest: "newest first", oldest: "oldest first" };
export const BY_COST = { usd: "dearest first", usd_asc: "cheapest first" };
/** Of turns, and of threads by all their turns. */
export const BY_USE = {
  ...BY_COST,
  tokens: "most tokens first",
  tokens_asc: "fewest tokens first",
  took: "longest first",
  took_asc: "shortest first",
};
