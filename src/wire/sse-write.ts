/** Server-sent events as the gateway writes them. */

const utf8 = new TextEncoder();
const BLANK_LINE = utf8.encode("\n\n");

/** A comment: proxies see traffic, clients see no event. */
export const KEEP_ALIVE: Uint8Array = utf8.encode(": keep-alive\n\n");
/** How a chat stream says that it ended well. */
export const DONE: Uint8Array = utf8.encode("data: [DONE]\n\n");

/** `type` is one of the protocol's own event names, never text from outside. */
export function formatEvent(type: string | null, dataJson: Uint8Array | string): Uint8Array {
  const head = type === null ? "data: " : `event: ${type}\ndata: `;
  if (typeof dataJson === "string") return utf8.encode(`${head}${onePerLine(dataJson)}\n\n`);
  if (dataJson.includes(0x0a) || dataJson.includes(0x0d)) {
    return formatEvent(type, new TextDecoder().decode(dataJson));
  }
  return Buffer.concat([utf8.encode(head), dataJson, BLANK_LINE]);
}

/** Line ends in JSON are white space, but in an event they would end the field. */
function onePerLine(json: string): string {
  return json.includes("\n") || json.includes("\r") ? json.replace(/\r\n|\r|\n/g, "\ndata: ") : json;
}
