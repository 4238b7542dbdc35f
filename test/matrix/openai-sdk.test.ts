/** OpenAI's SDK on accounts of every dialect. */

import { describeMatrix } from "./describe-matrix.ts";
import { openChatClient, openResponsesClient } from "./openai-clients.ts";

describeMatrix("openai, Chat Completions", { native: "chat", open: openChatClient });
describeMatrix("openai, Responses", { native: "responses", open: openResponsesClient });
