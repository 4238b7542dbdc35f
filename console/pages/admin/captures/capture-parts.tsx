/** The parts of a capture: the request, each attempt, the response. */

import { useText } from "../../../text/text.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Card } from "../../../ui/page.tsx";
import { Badge, CodeBlock } from "../../../ui/values.tsx";
import { useBytes } from "./bytes.ts";
import { type CaptureDocument, prettyJson } from "./capture-request.ts";

type Request = CaptureDocument["request"];
type Attempt = CaptureDocument["attempts"][number];
type ResponseBody = CaptureDocument["response"];
type Body = Request["body"];
type Headers = Request["headers"];

export function RequestPart({ request }: { request: Request }) {
  const t = useText("adminCaptures").view;
  return (
    <div className="stack wide">
      <p className="mono breakable">
        {request.method} {request.path} <Badge>{t.transport[request.transport]}</Badge>
      </p>
      <HeaderList headers={request.headers} label={t.headers} />
      <BodyView body={request.body} label={t.body} />
    </div>
  );
}

export function AttemptPart({ attempt }: { attempt: Attempt }) {
  const t = useText("adminCaptures").view;
  const isFailed = attempt.failure !== null;
  return (
    <div className="stack wide">
      <p className="mono breakable">
        {attempt.method} {attempt.url} <Badge>{t.transport[attempt.transport]}</Badge>{" "}
        <Badge tone={isFailed ? "bad" : "good"}>
          {attempt.status === null ? t.noStatus : t.status(attempt.status)}
        </Badge>
      </p>
      {attempt.failure !== null && <Notice tone="bad">{attempt.failure}</Notice>}
      <HeaderList headers={attempt.headers} label={t.headers} />
      <BodyView body={attempt.body} label={t.body} />
      <HeaderList headers={attempt.response_headers} label={`${t.upstreamResponse}: ${t.headers}`} />
      <BodyView body={attempt.response} label={t.upstreamResponse} />
    </div>
  );
}

export function ResponsePart({ response }: { response: ResponseBody }) {
  const t = useText("adminCaptures").view;
  return (
    <div className="stack wide">
      <p>
        <Badge tone={response.status < 400 ? "good" : "bad"}>{t.status(response.status)}</Badge>
      </p>
      {!response.is_complete && <Notice tone="warn">{t.incomplete}</Notice>}
      <BodyView body={response.body} label={t.body} />
    </div>
  );
}

function HeaderList({ headers, label }: { headers: Headers; label: string }) {
  if (headers.length === 0) return null;
  return (
    <details>
      <summary>
        {label} ({headers.length})
      </summary>
      <Card>
        <dl className="facts capture-headers">
          {headers.map(([name, value]) => (
            <div key={name} style={{ display: "contents" }}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </Card>
    </details>
  );
}

function BodyView({ body, label }: { body: Body; label: string }) {
  const t = useText("adminCaptures").view;
  const bytes = useBytes();
  if (body === null) return <Notice>{t.noBody}</Notice>;
  const pretty = prettyJson(body.text);
  return (
    <section className="stack" aria-label={label}>
      <div className="row apart">
        <strong>{label}</strong>
        <span className="small soft">{t.size(bytes(body.bytes))}</span>
      </div>
      {body.omitted_bytes > 0 && <Notice tone="warn">{t.omitted(bytes(body.omitted_bytes))}</Notice>}
      <CodeBlock
        code={pretty ?? body.text}
        label={label}
        {...(pretty === null ? {} : { language: "json" })}
        wrap
      />
    </section>
  );
}
