/** `work` for 0, 1, … up to `count`, so many of them at a time. */
export async function forEachIndex(
  count: number,
  atOnce: number,
  work: (i: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < count; i = next++) await work(i);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, worker));
}
