/** What clients send: chat completions with a conversation long enough to fill the wanted size. */

export const PUBLIC_MODEL = "fast-chat";

/** The same model by an account that is asked over sockets. */
export const NATIVE_MODEL = "native-chat";

export const EVENTS_PER_STREAM = 60;
export const EVENTS_PER_SHORT_STREAM = 10;

const SENTENCES = [
  "The build fails on the second step, and the log says only that a file is missing.",
  'She answered: "Compare both versions first, then tell me which of them you would keep."',
  "Here is the function again:\n\n\tfunction total(rows) {\n\t\treturn rows.reduce((sum, row) => sum + row.price, 0);\n\t}\n",
  "Prices are in euros (€), dates in ISO form, and names such as Zoë or Jürgen keep their letters.",
  "A path like C:\\projects\\demo\\main.ts may appear in the text and has to survive as it is.",
  "Please explain it slowly, with one example for each case, and say what you are not certain of.",
];

/** Grows by whole sentences, so escapes are as frequent in a large body as in a small one. */
function prose(bytes: number, seed: number): string {
  let text = "";
  for (let i = seed; text.length < bytes; i++) text += `${SENTENCES[i % SENTENCES.length]} `;
  return text.slice(0, bytes);
}

export function chatBody(bytes: number): string {
  const messages: { role: string; content: string }[] = [];
  const body = () => JSON.stringify({ model: PUBLIC_MODEL, messages, temperature: 0.7, max_tokens: 512 });
  for (let turn = 0; ; turn++) {
    const left = bytes - Buffer.byteLength(body());
    if (left < 120) return body();
    const role = turn === 0 ? "system" : turn % 2 === 1 ? "user" : "assistant";
    // Escapes make the JSON longer than the text: take less than the remaining size, the next turn fills up.
    messages.push({ role, content: prose(Math.min(8_000, Math.floor(left * 0.8)), turn) });
  }
}

export function chatStreamBody(): string {
  return JSON.stringify({
    model: PUBLIC_MODEL,
    stream: true,
    messages: [
      { role: "system", content: prose(300, 0) },
      { role: "user", content: prose(400, 3) },
    ],
  });
}

const RESPONSES_REQUEST = {
  store: false,
  instructions: prose(300, 0),
  input: [{ role: "user", content: [{ type: "input_text", text: prose(400, 3) }] }],
};

export function responsesStreamBody(): string {
  return JSON.stringify({ model: PUBLIC_MODEL, stream: true, ...RESPONSES_REQUEST });
}

/** The same over a socket. */
export function responsesMessage(model: string): string {
  return JSON.stringify({ type: "response.create", model, ...RESPONSES_REQUEST });
}
