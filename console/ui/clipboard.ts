/** Copies text. Browsers offer the clipboard to secure pages only, and a private gateway may run without TLS. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  // Inside an open dialog nothing else can be focused.
  const place = document.querySelector("dialog[open]") ?? document.body;
  place.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
