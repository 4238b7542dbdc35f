/**
 * Writes a request as code that runs when it is pasted. Every snippet reads the key from the environment. The base URL
 * of an SDK ends with `/v1`; in plain HTTP the path contains it.
 */

import { csharp, curl, fetchCode, go, java, php, ruby } from "./http-snippets.ts";
import { codex, python, typescript } from "./sdk-snippets.ts";
import type { SnippetLanguage, SnippetRequest } from "./snippet.ts";
import { socketPython, socketShell, socketTypescript } from "./socket-snippets.ts";

export interface Snippet {
  id: string;
  label: string;
  language: string;
  code: string;
}

const LANGUAGES: readonly SnippetLanguage[] = [
  { id: "curl", label: "curl", language: "bash", write: curl },
  { id: "python", label: "Python", language: "python", write: python },
  { id: "typescript", label: "TypeScript", language: "typescript", write: typescript },
  { id: "fetch", label: "fetch", language: "javascript", write: fetchCode },
  { id: "go", label: "Go", language: "go", write: go },
  { id: "java", label: "Java", language: "java", write: java },
  { id: "php", label: "PHP", language: "php", write: php },
  { id: "ruby", label: "Ruby", language: "ruby", write: ruby },
  { id: "csharp", label: "C#", language: "csharp", write: csharp },
  { id: "codex", label: "Codex", language: "toml", write: codex },
];

const SOCKET_LANGUAGES: readonly SnippetLanguage[] = [
  { id: "typescript", label: "TypeScript", language: "typescript", write: socketTypescript },
  { id: "python", label: "Python", language: "python", write: socketPython },
  { id: "shell", label: "websocat", language: "bash", write: socketShell },
  { id: "codex", label: "Codex", language: "toml", write: codex },
];

/** Leaves out the languages that cannot send the request: the SDKs do not have a call for every operation. */
export function buildSnippets(request: SnippetRequest): Snippet[] {
  const languages = request.isSocket ? SOCKET_LANGUAGES : LANGUAGES;
  return languages.flatMap(({ id, label, language, write }) => {
    const code = write(request);
    return code === null ? [] : [{ id, label, language, code }];
  });
}
