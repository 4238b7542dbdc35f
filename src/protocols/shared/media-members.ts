/**
 * The members of requests that hold images, files, audio and video, in all dialects. Metering, holds and request
 * policies read them here: a member that one of them took for text would be charged as text.
 */

import type { InputKind } from "../../records/request-policy.ts";

/** The approximate tokens of an image of ordinary size; also used for audio and files. */
export const MEDIA_TOKENS = 1_000;

export type MediaKind = Exclude<InputKind, "urls">;

export interface MediaMember {
  readonly name: string;
  readonly kind: MediaKind;
  /**
   * `address`: a URL or a data URL, or an object with it. `data_url`: a data URL only. `base64`: an object with Base64 in
   * its `data`. `reference`: the id of a stored file.
   */
  readonly holds: "address" | "data_url" | "base64" | "reference";
  /** A part has this `type` as well. */
  readonly isPartType: boolean;
}

/** Of Responses, Chat and Messages. */
export const MEDIA_MEMBERS = [
  { name: "image_url", kind: "images", holds: "address", isPartType: true },
  { name: "input_audio", kind: "audio", holds: "base64", isPartType: true },
  { name: "audio_url", kind: "audio", holds: "address", isPartType: true },
  { name: "video_url", kind: "audio", holds: "address", isPartType: true },
  { name: "file_data", kind: "files", holds: "data_url", isPartType: false },
  { name: "file_id", kind: "files", holds: "reference", isPartType: false },
  { name: "file_url", kind: "files", holds: "address", isPartType: false },
  { name: "document_url", kind: "files", holds: "address", isPartType: true },
] as const satisfies readonly MediaMember[];

export interface GeminiMediaMember {
  /** Google accepts both names. */
  readonly name: string;
  readonly snakeName: string;
  /** The object has a media type, which decides its kind, beside its data or the address of a file. */
  readonly holds: "base64" | "reference";
}

export const GEMINI_MEDIA_MEMBERS = [
  { name: "inlineData", snakeName: "inline_data", holds: "base64" },
  { name: "fileData", snakeName: "file_data", holds: "reference" },
] as const satisfies readonly GeminiMediaMember[];

export type GeminiMediaMemberName = (typeof GEMINI_MEDIA_MEMBERS)[number]["name" | "snakeName"];

export const MEDIA_BY_NAME: ReadonlyMap<string, (typeof MEDIA_MEMBERS)[number]> = new Map(
  MEDIA_MEMBERS.map((member) => [member.name, member]),
);
/** By both names. */
export const GEMINI_MEDIA_BY_NAME: ReadonlyMap<string, GeminiMediaMember> = new Map(
  GEMINI_MEDIA_MEMBERS.flatMap((member) => [
    [member.name, member],
    [member.snakeName, member],
  ]),
);

export const MEDIA_MEMBER_NAMES = MEDIA_MEMBERS.map(({ name }) => name);
export const GEMINI_MEDIA_MEMBER_NAMES = GEMINI_MEDIA_MEMBERS.flatMap<GeminiMediaMemberName>((member) => [
  member.name,
  member.snakeName,
]);

/** The address in the object that a member may hold. */
export const ADDRESS_MEMBER = "url";

/** The members whose value or `url` may be a data URL. */
export const DATA_URL_MEMBERS: readonly string[] = [
  ADDRESS_MEMBER,
  ...MEDIA_MEMBERS.filter(({ holds }) => holds === "address" || holds === "data_url").map(({ name }) => name),
];
/** The members that hold Base64 in their `data`. */
export const BASE64_MEMBERS: readonly string[] = MEDIA_MEMBERS.filter(({ holds }) => holds === "base64").map(
  ({ name }) => name,
);
export const GEMINI_BASE64_MEMBERS: readonly string[] = GEMINI_MEDIA_MEMBERS.filter(
  ({ holds }) => holds === "base64",
).flatMap(({ name, snakeName }) => [name, snakeName]);
