/**
 * A request as code that runs when it is pasted. The key is never part of it: every snippet reads it from the
 * environment. Where there is an SDK its base address ends with `/v1`, everywhere else the path has it.
 */

import { csharp, curl, fetchCode, go, java, php, ruby } from "./http-snippets.ts";
import { codex, python, typescript } from "./sdk-snippets.ts";
import type { SnippetLanguage, SnippetRequest } from "./snippet.ts";
import { socketPython, socketShell, socketTypescript } from "./socket-snippets.ts";

export interface Snippet {
  id: string;
  label: string;
  code: string;
}

const LANGUAGES: readonly SnippetLanguage[] = [
  { id: "curl", label: "curl", write: curl },
  { id: "python", label: "Python", write: python },
  { id: "typescript", label: "TypeScript", write: typescript },
  { id: "fetch", label: "fetch", write: fetchCode },
  { id: "go", label: "Go", write: go },
  { id: "java", label: "Java", write: java },
  { id: "php", label: "PHP", write: php },
  { id: "ruby", label: "Ruby", write: ruby },
  { id: "csharp", label: "C#", write: csharp },
  { id: "codex", label: "Codex", write: codex },
];

const SOCKET_LANGUAGES: readonly SnippetLanguage[] = [
  { id: "typescript", label: "TypeScript", write: socketTypescript },
  { id: "python", label: "Python", write: socketPython },
  { id: "shell", label: "websocat", write: socketShell },
  { id: "codex", label: "Codex", write: codex },
];

/** Those that make sense for the request: the SDKs have no call for everything. */
export function snippetsOf(request: SnippetRequest): Snippet[] {
  const languages = request.isSocket ? SOCKET_LANGUAGES : LANGUAGES;
  return languages.flatMap(({ id, label, write }) => {
    const code = write(request);
    return code === null ? [] : [{ id, label, code }];
  });
}
