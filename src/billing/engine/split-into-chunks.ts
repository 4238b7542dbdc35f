/** Splits a list into parts of limited size. */
export function* splitIntoChunks<T>(all: readonly T[], size: number): Generator<T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}
