// The official SDK over the `ws` package: four turns on one socket, and a line about each.

import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";

const { BASE_URL, API_KEY, MODEL } = process.env;
const socket = new ResponsesWS(new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY }));
const heard = socket.stream();

/** The response, or the error that came instead. */
async function ask(request) {
  socket.send({ type: "response.create", model: MODEL, store: false, ...request });
  for (;;) {
    const { value, done } = await heard.next();
    if (done) throw new Error("the socket was closed");
    if (value.type === "error") return value.error.error.error;
    if (value.type === "message" && value.message.type === "response.completed")
      return value.message.response;
  }
}

const first = await ask({ input: "My name is Ada." });
console.log(first.status);
console.log((await ask({ previous_response_id: first.id, input: "And now?" })).status);
console.log((await ask({ previous_response_id: "resp_unknown", input: "And now?" })).code);
console.log((await ask({ input: "Hello" })).status);
socket.close();
