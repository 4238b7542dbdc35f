/** How a key is used: ready programs, and which address a client wants. */

import { useGatewayOrigin } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { CodeBlock } from "../../ui/values.tsx";
import { codex, curl, environment, type Interface, python, targetOf, typescript } from "./snippets.ts";

interface ExamplesProps {
  models: readonly { id: string; interfaces: readonly Interface[] }[];
}

export function Examples({ models }: ExamplesProps) {
  const t = useText("keys").use;
  const origin = useGatewayOrigin();
  const target = targetOf(origin, models);
  if (target === null) return <Notice tone="info">{t.noModel}</Notice>;
  const forCodex = models.find(({ interfaces }) => interfaces.includes("responses"));
  const tab = (key: "curl" | "python" | "typescript", code: string) => ({
    key,
    label: t[key],
    content: <CodeBlock label={t[key]} code={code} />,
  });
  return (
    <div className="stack">
      <CodeBlock label={t.environment} code={environment} />
      <Tabs
        label={t.tabs}
        tabs={[
          tab("curl", curl(target)),
          tab("python", python(target)),
          tab("typescript", typescript(target)),
          {
            key: "codex",
            label: t.codex,
            content:
              forCodex === undefined ? (
                <Notice tone="info">{t.codexNeeds}</Notice>
              ) : (
                <div className="stack">
                  <p className="small soft">{t.codexFile}</p>
                  <CodeBlock label={t.codex} code={codex({ origin, model: forCodex.id })} />
                </div>
              ),
          },
        ]}
      />
      <p className="small soft breakable">{t.addressRule(origin, `${origin}/v1`)}</p>
    </div>
  );
}
