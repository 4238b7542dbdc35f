/** English texts: the page that connects a tool. */

export const connect = {
  title: "Connect a tool",
  about: "Create a key, copy the settings of your tool, and see its first request arrive.",
  steps: { key: "1. Key", tool: "2. Tool", request: "3. First request" },
  name: "Name of the new key",
  keyName: "My tool",
  group: "Group",
  create: "Create key",
  existing: "Or use an existing key",
  existingHint: "Its secret cannot be shown again. You need the copy that you stored.",
  keyChoice: (name: string, group: string) => `${name} · ${group}`,
  use: "Use this key",
  chosen: (name: string) => `Key: ${name}. Use the secret that you stored when it was created.`,
  once: "Copy the key now. It is shown only once.",
  secret: "Secret key",
  copySecret: "Copy key",
  noGroup: "No group with models",
  noGroupText: "Ask an administrator to add you to a group that has models.",
  variable: "Environment variable",
  variableAbout:
    "The settings read the key from an environment variable. Run the first line in a shell, paste the key (the input is hidden), and press Enter.",
  model: "Model",
  noModel: (interfaces: string) =>
    `The key has no model for this tool, which needs one of these interfaces: ${interfaces}.`,
  tools: {
    claudeCode: "Claude Code reads these variables.",
    codex: "Codex reads this file. The key stays in the environment variable.",
    geminiCli: "gemini-cli reads this file and these variables. Other hosts than localhost need https.",
    opencode: "opencode reads this file.",
    cursor:
      "In Cursor Settings → Models → API Keys, turn on OpenAI API Key and paste the key, then turn on Override OpenAI Base URL. Cursor's servers send the requests, so the address must be reachable from the internet.",
    vsCode:
      "Run the command “Chat: Manage Language Models”, choose Add Models → Custom Endpoint, enter a name, paste the key and choose any API type. In the file that opens, replace the models of the new entry by these.",
    openWebUi:
      "Inside the container, 127.0.0.1 is the container itself: use an address that it can reach. The variables apply to a new volume only; later, change Admin Panel → Settings → Connections.",
    libreChat:
      "Add this to librechat.yaml and the variable to .env, and restart LibreChat. In a container, mount librechat.yaml, and use an address that the container can reach instead of 127.0.0.1.",
    python: "Install the SDK and run the program with Python 3.",
    typescript: "Install the SDK and run the program with Node.",
    curl: "Run this in a shell.",
  },
  request: {
    waiting: "Waiting for the first request…",
    arrived: "The first request has arrived.",
    rejected: "A request has arrived, but it was rejected. Its page names the reason.",
    time: "Time",
    model: "Model",
    outcome: "Outcome",
    cost: "Cost",
    open: "Open request",
  },
};
