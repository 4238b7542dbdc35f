/** The members of parts that hold images, files, audio and video, in all dialects of OpenAI and in Messages. */

export const MEDIA_MEMBERS = [
  "image_url",
  "file_data",
  "file_id",
  "file_url",
  "document_url",
  "input_audio",
  "audio_url",
  "video_url",
] as const;
