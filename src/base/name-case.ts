/** The two spellings of a name: `webSearch` and `web_search`. */

export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function camelCase(name: string): string {
  return name.includes("_") ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
}
