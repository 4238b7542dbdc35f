/** The page: endpoints at the left, the request in the middle, code and structure beside it. */

import { useEffect, useEffectEvent, useRef } from "react";
import { useText } from "../text/text.tsx";
import { BodyEditor } from "./body-editor.tsx";
import { buildExamples, demoModel, modelsFor, pathExamples } from "./described.ts";
import { EndpointList, EndpointSelect } from "./endpoints.tsx";
import { ExplorerBar } from "./explorer-bar.tsx";
import { KeyField } from "./key-field.tsx";
import { OperationHeader } from "./operation-header.tsx";
import { ParameterFields } from "./parameter-fields.tsx";
import { Files } from "./picture-files.tsx";
import { Result } from "./result.tsx";
import { SnippetTabs } from "./snippet-tabs.tsx";
import { StructureView } from "./structure-view.tsx";
import { useAddress, useDraft } from "./use-draft.ts";
import { useModels } from "./use-models.ts";
import { useRunner } from "./use-runner.ts";

export function Explorer() {
  const t = useText("explorer");
  // The key is in a ref and in its field only: nothing that is drawn, stored or linked contains it.
  const key = useRef("");
  const main = useRef<HTMLElement>(null);
  const { models, look } = useModels(() => key.current);
  const { runner, state } = useRunner(() => key.current);
  const { draft, change } = useDraft(() => runner.reset());
  const { operation, files } = draft;
  const served = modelsFor(operation, models.all);
  const examples = buildExamples(operation, served);
  const model = served[0] ?? demoModel(operation);
  const parameters = { ...pathExamples(operation, { ...state.created, model }), ...draft.parameters };
  const example = examples.find(({ name }) => name === draft.example) ?? examples[0];
  const body = draft.body ?? example?.text ?? "";
  const address = useAddress(draft, body);
  const send = () => runner.start({ operation, body, parameters, files });
  useSendKey(send);
  useEffect(() => {
    document.title = `${operation.summary} · ${t.title}`;
  }, [operation.summary, t.title]);

  return (
    <div className="explorer">
      <ExplorerBar onSkip={() => main.current?.focus()} />
      <div className="explorer-frame">
        <EndpointList chosen={operation.id} />
        <main ref={main} tabIndex={-1}>
          <EndpointSelect chosen={operation.id} />
          <KeyField keyRef={key} models={models} onLook={look} />
          <OperationHeader operation={operation} address={address} />
          <div className="explorer-columns">
            <div className="stack wide">
              <ParameterFields
                parameters={operation.parameters}
                values={parameters}
                onChange={(values) => change({ parameters: values })}
              />
              <BodyEditor
                key={operation.id}
                operation={operation}
                text={body}
                models={served}
                examples={examples}
                onChange={(text) => change({ body: text })}
                onExample={(name) => change({ body: null, example: name })}
              />
              {operation.id === "editImages" && (
                <Files chosen={files} onChange={(chosen) => change({ files: chosen })} />
              )}
              <Result
                operation={operation}
                state={state}
                runner={runner}
                onRun={send}
                onGoOn={(responseId) => change({ body: withPrevious(body, responseId) })}
              />
            </div>
            <div className="stack wide">
              <SnippetTabs operation={operation} body={body} parameters={parameters} files={files} />
              <StructureView operation={operation} />
            </div>
          </div>
        </main>
      </div>
    </div>
  );
}

/** Ctrl+Enter or Cmd+Enter sends the request, wherever the focus is. */
function useSendKey(send: () => void): void {
  const press = useEffectEvent((event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    send();
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => press(event);
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

/** Sends the next turn of the same conversation. */
function withPrevious(text: string, responseId: string): string {
  try {
    return JSON.stringify({ ...JSON.parse(text), previous_response_id: responseId }, null, 2);
  } catch {
    return text;
  }
}
