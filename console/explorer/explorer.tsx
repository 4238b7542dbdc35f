/** The page: endpoints at the left, the request in the middle, code and structure beside it. */

import { useEffect, useEffectEvent, useRef, useState } from "react";
import { AppearanceMenu } from "../shell/appearance-menu.tsx";
import { useText } from "../text/text.tsx";
import { Icon } from "../ui/icon.tsx";
import { CopyButton } from "../ui/values.tsx";
import { addressOf, placeOf } from "./address.ts";
import { BodyEditor } from "./body-editor.tsx";
import {
  examplesOf,
  firstOperation,
  type Listed,
  modelsFor,
  operationOf,
  pathExamples,
} from "./described.ts";
import { EndpointList, EndpointSelect } from "./endpoints.tsx";
import { KeyField } from "./key-field.tsx";
import { Marked } from "./marked.tsx";
import { ParameterFields } from "./parameter-fields.tsx";
import { type Chosen, Files, NO_FILES } from "./picture-files.tsx";
import { Result } from "./result.tsx";
import { SnippetTabs } from "./snippet-tabs.tsx";
import { StructureView } from "./structure-view.tsx";
import { useModels } from "./use-models.ts";
import { useRun } from "./use-run.ts";

interface Shown {
  operation: Listed;
  /** As typed; null: the first example, with a model that the key can call. */
  body: string | null;
  /** Of the path and the query, by name, as typed. */
  parameters: Readonly<Record<string, string>>;
  files: Chosen;
}

/** What was typed there before is there again, unless the address says otherwise. */
function shownAt(fragment: string, left: ReadonlyMap<string, Shown>): Shown {
  const place = placeOf(fragment);
  const operation = (place && operationOf(place.operation)) ?? firstOperation();
  const before = left.get(operation.id) ?? { operation, body: null, parameters: {}, files: NO_FILES };
  return { ...before, body: place?.body ?? before.body };
}

/** Browsers refuse an address that changes with every key that is pressed. */
const ADDRESS_AFTER_MS = 300;

export function Explorer() {
  const t = useText("explorer");
  // In a ref and in the field's own memory: nothing that is drawn, kept or linked ever holds it.
  const key = useRef("");
  const main = useRef<HTMLElement>(null);
  /** What was typed for other operations, by their ids. */
  const left = useRef(new Map<string, Shown>());
  const [shown, setShown] = useState(() => shownAt(location.hash, left.current));
  const { models, look } = useModels(() => key.current);
  const { run, report, made, isOpen, start, stop, disconnect, forget } = useRun(() => key.current);
  const { operation, files } = shown;
  const served = modelsFor(operation, models.all);
  const examples = examplesOf(operation, served);
  const parameters = { ...pathExamples(operation, { ...made, model: served[0] }), ...shown.parameters };
  const body = shown.body ?? examples[0]?.text ?? "";
  const address = addressOf({ operation: operation.id, body: shown.body });

  const send = () => start({ operation, body, parameters, files });
  const change = (text: string) => setShown({ ...shown, body: text });

  // Every endpoint is a link, so that back and forth lead through them.
  const follow = useEffectEvent(() => {
    forget();
    left.current.set(operation.id, shown);
    setShown(shownAt(location.hash, left.current));
  });
  const pressed = useEffectEvent((event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    send();
  });
  useEffect(() => {
    const onHash = () => follow();
    const onKey = (event: KeyboardEvent) => pressed(event);
    addEventListener("hashchange", onHash);
    document.addEventListener("keydown", onKey);
    return () => {
      removeEventListener("hashchange", onHash);
      document.removeEventListener("keydown", onKey);
    };
  }, []);

  useEffect(() => {
    document.title = `${operation.summary} · ${t.title}`;
  }, [operation.summary, t.title]);
  useEffect(() => {
    const timer = setTimeout(() => history.replaceState(null, "", address), ADDRESS_AFTER_MS);
    return () => clearTimeout(timer);
  }, [address]);

  return (
    <div className="explorer">
      <button type="button" className="skip-link" onClick={() => main.current?.focus()}>
        {t.skip}
      </button>
      <header className="explorer-bar">
        <Icon name="gate" size={22} />
        <h1>{t.title}</h1>
        <nav aria-label={t.elsewhere}>
          <a href="/docs/">{t.docs}</a>
          <a href="/console/">{t.console}</a>
        </nav>
        <AppearanceMenu />
      </header>
      <div className="explorer-frame">
        <EndpointList chosen={operation.id} />
        <main ref={main} tabIndex={-1}>
          <EndpointSelect chosen={operation.id} />
          <KeyField keyRef={key} models={models} onLook={look} />
          <section className="explorer-head">
            <h2>{operation.summary}</h2>
            <p className="explorer-address">
              <span className={`method ${operation.method.toLowerCase()}`}>
                {operation.isSocket ? "WS" : operation.method}
              </span>
              <code className="breakable">{operation.path}</code>
              <CopyButton text={new URL(address, location.href).href} label={t.copyLink} />
            </p>
            <p className="soft">
              <Marked text={operation.about} />
            </p>
          </section>
          <div className="explorer-columns">
            <div className="stack wide">
              <ParameterFields
                parameters={operation.parameters}
                values={parameters}
                onChange={(values) => setShown({ ...shown, parameters: values })}
              />
              <BodyEditor
                key={operation.id}
                operation={operation}
                text={body}
                models={served}
                examples={examples}
                onChange={change}
              />
              {operation.id === "editImages" && (
                <Files chosen={files} onChange={(chosen) => setShown({ ...shown, files: chosen })} />
              )}
              <Result
                operation={operation}
                run={run}
                report={report}
                isOpen={isOpen}
                onRun={send}
                onStop={stop}
                onDisconnect={disconnect}
                onGoOn={(responseId) => change(withPrevious(body, responseId))}
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

/** The next turn of the same conversation. */
function withPrevious(text: string, responseId: string): string {
  try {
    return JSON.stringify({ ...JSON.parse(text), previous_response_id: responseId }, null, 2);
  } catch {
    return text;
  }
}
