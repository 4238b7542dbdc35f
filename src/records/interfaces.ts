/** The interfaces that clients call, and the dialects among them. */

export const INTERFACES = ["chat", "responses", "messages", "gemini", "embeddings", "images"] as const;
export type Interface = (typeof INTERFACES)[number];

/** The dialects of conversations, which the gateway translates into each other. */
export const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
export type Dialect = (typeof DIALECTS)[number];
