/** Requests with each of the members that hold media, for tests of what reads them. */

import { GEMINI_MEDIA_MEMBERS, type GeminiMediaMemberName, MEDIA_MEMBERS } from "./media-members.ts";

/** Far more bytes than the text of a request, so that a reader that takes it for text shows. */
const BASE64 = "iVBORw0KGgo".repeat(400);
const DATA_URL = `data:application/octet-stream;base64,${BASE64}`;

type Example<Member> = Member & {
  readonly part: { readonly [name: string]: unknown };
  /** The data is in the body. */
  readonly isInline: boolean;
};
type Member = (typeof MEDIA_MEMBERS)[number];

export const MEDIA_EXAMPLES: readonly Example<Member>[] = MEDIA_MEMBERS.flatMap(writeExamples);

function writeExamples(member: Member): Example<Member>[] {
  const write = (value: unknown, isInline: boolean) => ({
    ...member,
    part: { [member.name]: value },
    isInline,
  });
  switch (member.holds) {
    case "address":
      return [write(DATA_URL, true), write("https://example.com/a", false)];
    case "data_url":
      return [write(DATA_URL, true)];
    case "base64":
      return [write({ format: "wav", data: BASE64 }, true)];
    case "reference":
      return [write("file-1", false)];
  }
}

export const GEMINI_MEDIA_EXAMPLES: readonly Example<{ readonly name: GeminiMediaMemberName }>[] =
  GEMINI_MEDIA_MEMBERS.flatMap(({ name, snakeName, holds }) => {
    const source = holds === "base64" ? { data: BASE64 } : { fileUri: "https://example.com/a" };
    return [name, snakeName].map((one) => ({
      name: one,
      part: { [one]: { mimeType: "image/png", ...source } },
      isInline: holds === "base64",
    }));
  });
