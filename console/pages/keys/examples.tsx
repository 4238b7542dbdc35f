/** How to use a key: programs that are ready to run, and the base URL for clients. */

import { useGatewayOrigin } from "../../session.tsx";
import { buildExample, type ExampleModel, environment } from "../../snippets/example-request.ts";
import { curl } from "../../snippets/http-snippets.ts";
import { codex, python, typescript } from "../../snippets/sdk-snippets.ts";
import { useText } from "../../text/text.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { CodeBlock } from "../../ui/values.tsx";

interface ExamplesProps {
  models: readonly ExampleModel[];
}

export function Examples({ models }: ExamplesProps) {
  const t = useText("keys").use;
  const origin = useGatewayOrigin();
  const request = buildExample(origin, models);
  if (request === null) return <Notice tone="info">{t.noModel}</Notice>;
  const codexRequest = buildExample(origin, models, ["responses"]);
  const codexCode = codexRequest === null ? null : codex(codexRequest);
  const tab = (key: "curl" | "python" | "typescript", code: string | null) =>
    code === null
      ? []
      : [
          {
            key,
            label: t[key],
            content: <CodeBlock label={t[key]} code={code} language={key === "curl" ? "bash" : key} />,
          },
        ];
  return (
    <div className="stack">
      <CodeBlock label={t.environment} code={environment} language="bash" />
      <Tabs
        label={t.tabs}
        tabs={[
          ...tab("curl", curl(request)),
          ...tab("python", python(request)),
          ...tab("typescript", typescript(request)),
          {
            key: "codex",
            label: t.codex,
            content:
              codexCode === null ? (
                <Notice tone="info">{t.codexNeeds}</Notice>
              ) : (
                <div className="stack">
                  <p className="small soft">{t.codexFile}</p>
                  <CodeBlock label={t.codex} code={codexCode} language="toml" />
                </div>
              ),
          },
        ]}
      />
      <p className="small soft breakable">{t.addressRule(origin, `${origin}/v1`)}</p>
    </div>
  );
}
