/** A text as a string literal of a language: whatever stands in it, it stays text. */

export type Quote = "shell" | "python" | "javascript" | "go" | "java" | "php" | "ruby" | "csharp" | "toml";

export function codeString(text: string, quote: Quote): string {
  switch (quote) {
    case "shell":
      return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
    case "php":
      return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
    case "ruby":
      // Double quotes would look for #{…} in it.
      return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
    case "go":
      return text.includes("\n") && !text.includes("`") && !text.includes("\r")
        ? `\`${text}\``
        : escaped(text);
    default:
      return escaped(text);
  }
}

/** JSON's escapes are understood by all the others, once nothing beyond the first plane is left to them. */
function escaped(text: string): string {
  return JSON.stringify(text).replaceAll(/[\u007f-\u009f\u2028\u2029]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
