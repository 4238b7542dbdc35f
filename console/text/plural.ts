/** Chooses the text for a count. */

const english = new Intl.NumberFormat("en");

/** `#` stands for the number. */
export function plural(count: number, one: string, many: string): string {
  return (count === 1 ? one : many).replace("#", english.format(count));
}
