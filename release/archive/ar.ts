/** Writes and reads ar archives, the container format of Debian packages. */

export interface ArMember {
  readonly name: string;
  readonly content: Uint8Array;
}

const MAGIC = "!<arch>\n";
const HEADER_BYTES = 60;
const HEADER_END = "`\n";

export function writeAr(members: readonly ArMember[], timeSeconds: number): Buffer {
  const parts = members.flatMap(({ name, content }) => {
    if (name.length > 15) throw new Error(`The name ${name} is too long for ar.`);
    const header = [
      name.padEnd(16),
      String(timeSeconds).padEnd(12),
      "0".padEnd(6),
      "0".padEnd(6),
      "100644".padEnd(8),
      String(content.length).padEnd(10),
      HEADER_END,
    ].join("");
    // Every member begins at an even offset.
    return [Buffer.from(header), content, Buffer.from(content.length % 2 === 0 ? "" : "\n")];
  });
  return Buffer.concat([Buffer.from(MAGIC), ...parts]);
}

export function readAr(bytes: Buffer): ArMember[] {
  if (bytes.toString("latin1", 0, MAGIC.length) !== MAGIC) throw new Error("The file is not an ar archive.");
  const members: ArMember[] = [];
  for (let at = MAGIC.length; at + HEADER_BYTES <= bytes.length; ) {
    const header = bytes.toString("latin1", at, at + HEADER_BYTES);
    const size = Number(header.slice(48, 58).trim());
    if (!header.endsWith(HEADER_END) || !Number.isSafeInteger(size))
      throw new Error("The ar archive is damaged.");
    const start = at + HEADER_BYTES;
    members.push({
      name: header.slice(0, 16).trim().replace(/\/$/, ""),
      content: bytes.subarray(start, start + size),
    });
    at = start + size + (size % 2);
  }
  return members;
}
