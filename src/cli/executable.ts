/**
 * Entry point of the single executable. A server that was started without the allocator settings is replaced by itself
 * with them: the process id stays, and the second time the settings are present.
 */

import { addAllocatorSettings } from "./allocator-settings.ts";

const args = process.argv.slice(2);
// Other commands are too short to gain from the settings.
const environment = args[0] === "start" ? addAllocatorSettings(process.env) : null;
if (environment !== null && process.execve !== undefined)
  process.execve(process.execPath, [process.execPath, ...args], environment);

// Imported only now, because the process above does not need it.
await import("./main.ts");
