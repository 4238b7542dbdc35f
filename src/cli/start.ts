/** `model-gateway start`: runs the server. */

import { type CommandDefinition, DATA_OPTION } from "./command.ts";

export const start: CommandDefinition = {
  changes: "all",
  about: "Without --config, an empty installation gets a demo group with the built-in simulator.",
  options: {
    config: { value: "FILE", about: "apply this configuration file before listening" },
    host: { value: "ADDRESS", about: "the address to listen on (HOST, 127.0.0.1)" },
    port: { value: "PORT", about: "the port to listen on (PORT, 8787)" },
    processes: {
      value: "auto|N",
      about: "processes that serve the port, on PostgreSQL and Linux (PROCESSES, 1)",
    },
    data: DATA_OPTION,
  },
  async run(input) {
    // Imported only when used: the server's modules would slow down every other command.
    const { runServer } = await import("./run-server.ts");
    return runServer(input);
  },
};
