/** The section of a key's page with its capture mode, the order of the next requests, and its captures. */

import type { Input, ResponseBody } from "../../../api.ts";
import { useApi, useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { Button } from "../../../ui/button.tsx";
import { NumberField, SelectField } from "../../../ui/field.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { CaptureTable } from "./capture-table.tsx";
import "./captures.css";

type Order = ResponseBody<"admin.keys.capture">;
type OrderBody = Input<"admin.keys.set_capture">["body"];
type Mode = Order["mode"];

const REFRESH_MS = 3_000;
const MINUTE_MS = 60_000;
const MODES = ["off", "errors", "all"] as const;
const MINUTES = ["15", "60", "1440"] as const;

export function KeyCaptures({ keyId, isActive }: { keyId: string; isActive: boolean }) {
  const t = useText("adminCaptures").key;
  const order = useApi("admin.keys.capture", { params: { id: keyId } }, { refreshMs: REFRESH_MS });
  const captures = useList("admin.captures.list", { query: { key: keyId } }, { refreshMs: REFRESH_MS });
  return (
    <Section title={t.title} about={t.about}>
      {isActive && (
        <Card>
          {order.data === undefined ? (
            <Awaited query={order} height={120} />
          ) : (
            <OrderFields keyId={keyId} order={order.data} />
          )}
        </Card>
      )}
      <CaptureTable
        label={t.latest}
        rows={captures}
        showsKey={false}
        empty={<p className="captures-none soft">{t.none}</p>}
      />
    </Section>
  );
}

function useOrder(keyId: string): (body: OrderBody) => Promise<unknown> {
  const change = useChange("admin.keys.set_capture", { invalidates: ["admin.keys.capture"] });
  return (body) => change.mutateAsync({ params: { id: keyId }, body });
}

function OrderFields({ keyId, order }: { keyId: string; order: Order }) {
  const { key: t, modes } = useText("adminCaptures");
  const showToast = useToast();
  const explain = useProblemToast();
  const send = useOrder(keyId);
  const setMode = (mode: Mode) => {
    send({ mode }).then(() => showToast(t.saved), explain);
  };
  return (
    <div className="stack wide">
      <SelectField
        name="capture-mode"
        label={t.mode}
        value={order.mode ?? ""}
        onChange={(value) => setMode(MODES.find((mode) => mode === value) ?? null)}
        choices={[
          { value: "", label: t.asGroup(modes[order.group_mode]) },
          ...MODES.map((mode) => ({ value: mode, label: modes[mode] })),
        ]}
      />
      {order.until_at === null ? (
        <NextForm keyId={keyId} mode={order.mode} />
      ) : (
        <RunningOrder keyId={keyId} order={order} />
      )}
    </div>
  );
}

function NextForm({ keyId, mode }: { keyId: string; mode: Mode }) {
  const t = useText("adminCaptures").key;
  const showToast = useToast();
  const send = useOrder(keyId);
  const form = useForm({ requests: 5 as number | null, minutes: "15" as string }, async (values) => {
    const forMs = Number(values.minutes) * MINUTE_MS;
    await send({ mode, next: { requests: values.requests ?? 1, for_ms: forMs } });
    showToast(t.ordered);
  });
  return (
    <Form form={form} submit={t.order}>
      <div className="capture-order">
        <NumberField
          {...form.bind("requests", "next.requests")}
          label={t.next}
          hint={t.nextHint}
          min={1}
          max={1_000}
        />
        <SelectField
          {...form.bind("minutes", "next.for_ms")}
          label={t.minutes}
          choices={MINUTES.map((minutes) => ({ value: minutes, label: t.durations[minutes] }))}
        />
      </div>
    </Form>
  );
}

function RunningOrder({ keyId, order }: { keyId: string; order: Order }) {
  const t = useText("adminCaptures").key;
  const format = useFormat();
  const showToast = useToast();
  const explain = useProblemToast();
  const send = useOrder(keyId);
  return (
    <Notice tone="warn">
      <div className="row apart">
        <span role="status">{t.running(order.remaining, format.dateTime(order.until_at ?? 0))}</span>
        <Button
          small
          onClick={() => {
            send({ mode: order.mode, next: null }).then(() => showToast(t.cancelled), explain);
          }}
        >
          {t.cancel}
        </Button>
      </div>
    </Notice>
  );
}
