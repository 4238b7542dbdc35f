/** One turn of a person, and the replies of all models side by side. */

import { memo, useState } from "react";
import { useFormat, useText } from "../../text/text.tsx";
import { Button, LinkButton } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { CodeBlock, CopyButton, Money } from "../../ui/values.tsx";
import { PriceLines } from "../requests/price.tsx";
import { CodeDialog } from "./code-dialog.tsx";
import { type Conversation, computeSpeed, type Reply, type Turn } from "./conversation.ts";
import type { PlaygroundModel } from "./playground-session.ts";

interface TurnViewProps {
  conversation: Conversation;
  turn: Turn;
  index: number;
  models: ReadonlyMap<string, PlaygroundModel>;
}

export function TurnView({ conversation, turn, index, models }: TurnViewProps) {
  const t = useText("playground");
  const [codeOf, setCodeOf] = useState<string | null>(null);
  const column = conversation.columns.find(({ id }) => id === codeOf);
  return (
    <section className="stack" aria-label={t.turnNumber(index + 1)}>
      <div className="turn">
        <p>{turn.text}</p>
        {turn.images.length > 0 && (
          <div className="row">
            {turn.images.map((image, number) => (
              <img key={image} src={image} alt={t.imageNumber(number + 1)} />
            ))}
          </div>
        )}
      </div>
      <div className="replies">
        {conversation.columns.map(({ id, model, replies }) => (
          <ReplyView key={id} id={id} model={model} reply={replies[index] ?? null} onCode={setCodeOf} />
        ))}
      </div>
      {column && (
        <CodeDialog
          conversation={conversation}
          column={column}
          turnIndex={index}
          model={models.get(column.model)}
          onClose={() => setCodeOf(null)}
        />
      )}
    </section>
  );
}

interface ReplyViewProps {
  id: string;
  model: string;
  reply: Reply | null;
  onCode(columnId: string): void;
}

/** Remembered: while one reply streams, the others are not drawn again. */
const ReplyView = memo(function ReplyView({ id, model, reply, onCode }: ReplyViewProps) {
  const t = useText("playground");
  return (
    <article className="reply" aria-label={model} aria-busy={reply?.state === "streaming"}>
      <h3 className="breakable">{model}</h3>
      {reply === null ? (
        <p className="soft">{t.notAsked}</p>
      ) : (
        <>
          {reply.reasoning !== "" && (
            <details className="details small soft">
              <summary>{t.reasoning}</summary>
              <p className="reply-text">{reply.reasoning}</p>
            </details>
          )}
          {reply.text !== "" && <p className="reply-text">{reply.text}</p>}
          {reply.toolCalls.map((call) => (
            <CodeBlock
              key={call.id}
              label={t.toolCall(call.name)}
              code={`${call.name}(${call.arguments})`}
              language="javascript"
              wrap
            />
          ))}
          <ReplyState reply={reply} />
          <ReplyFigures reply={reply} />
          {reply.state !== "streaming" && (
            <div className="row">
              {reply.bill !== null && (
                <LinkButton to={`/requests/${reply.bill.id}`} small tone="quiet" icon="list">
                  {t.request}
                </LinkButton>
              )}
              <Button small tone="quiet" icon="code" onClick={() => onCode(id)}>
                {t.code}
              </Button>
              {reply.text !== "" && <CopyButton text={reply.text} label={t.copyReply} />}
            </div>
          )}
        </>
      )}
    </article>
  );
});

function ReplyState({ reply: { state, text, problem, toolCalls } }: { reply: Reply }) {
  const t = useText("playground");
  if (state === "streaming" && text === "") return <p className="soft">{t.waiting}</p>;
  if (state === "stopped") return <p className="small soft">{t.stopped}</p>;
  if (state === "failed") return <Notice tone="bad">{problem || t.failed}</Notice>;
  if (state === "done" && text === "" && toolCalls.length === 0) return <p className="soft">{t.empty}</p>;
  return null;
}

function ReplyFigures({ reply }: { reply: Reply }) {
  const t = useText("playground");
  const format = useFormat();
  const { firstMs, bill } = reply;
  const speed = computeSpeed(reply);
  const figures = [
    ...(firstMs === null ? [] : [t.firstToken(format.duration(firstMs))]),
    ...(speed === null ? [] : [t.speed(format.number(Math.round(speed)))]),
    ...(bill === null ? [] : [t.tokens(format.number(bill.input_tokens), format.number(bill.output_tokens))]),
  ];
  return (
    <div className="small soft stack">
      {figures.length > 0 && <p className="number">{figures.join(" · ")}</p>}
      {bill !== null && (
        <details className="details">
          <summary>
            {t.cost} <Money value={bill.cost} />
          </summary>
          {bill.calculation === null || bill.calculation.lines.length === 0 ? (
            <p>{t.noPrice}</p>
          ) : (
            <PriceLines request={bill} />
          )}
        </details>
      )}
    </div>
  );
}
