/** The request as code, one tab for each language. */

import { KEY_VARIABLE } from "../snippets/snippet.ts";
import { buildSnippets } from "../snippets/snippets.ts";
import { useText } from "../text/text.tsx";
import { Section } from "../ui/page.tsx";
import { Tabs } from "../ui/tabs.tsx";
import { CodeBlock } from "../ui/values.tsx";
import type { ExplorerOperation } from "./described.ts";
import type { Chosen } from "./picture-files.tsx";
import { buildSnippetRequest } from "./sent-request.ts";
import { useOrigin } from "./use-origin.ts";

interface SnippetTabsProps {
  operation: ExplorerOperation;
  body: string;
  parameters: Readonly<Record<string, string>>;
  files: Chosen;
}

/** The current request, in every language. */
export function SnippetTabs(typed: SnippetTabsProps) {
  const t = useText("explorer");
  const snippets = buildSnippets(buildSnippetRequest(typed, useOrigin()));
  return (
    <Section title={t.snippet} about={t.snippetHint(KEY_VARIABLE)}>
      <Tabs
        label={t.snippet}
        tabs={snippets.map(({ id, label, language, code }) => ({
          key: id,
          label,
          content: <CodeBlock code={code} label={label} language={language} />,
        }))}
      />
    </Section>
  );
}
