/** Writes a text as a string literal of a language, so that none of its characters is interpreted. */

export type Quote = "shell" | "python" | "javascript" | "go" | "java" | "php" | "ruby" | "csharp" | "toml";

export function codeString(text: string, quote: Quote): string {
  switch (quote) {
    case "shell":
      return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
    case "php":
      return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
    case "ruby":
      // Double quotes would interpolate #{…}.
      return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
    case "go":
      return text.includes("\n") && !text.includes("`") && !text.includes("\r")
        ? `\`${text}\``
        : escaped(text);
    default:
      return escaped(text);
  }
}

/** The other languages read the escapes of JSON. Characters that only JSON allows unescaped are escaped as well. */
function escaped(text: string): string {
  return JSON.stringify(text).replaceAll(/[\u007f-\u009f\u2028\u2029]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
