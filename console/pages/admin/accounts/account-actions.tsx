/** The actions on an account. Each confirmation names its effect and the affected groups. */

import { useState } from "react";
import { useLocation } from "wouter";
import type { ResponseBody } from "../../../api.ts";
import { useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog, Dialog } from "../../../ui/dialog.tsx";
import { SecretField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { Menu, MenuItem } from "../../../ui/menu.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import type { KindFacts } from "./account-values.ts";

type Account = ResponseBody<"admin.accounts.get">;
type Deed = "disable" | "park" | "credential" | "delete";

export function AccountActions({ account, kind }: { account: Account; kind: KindFacts }) {
  const t = useText("adminAccounts");
  const showToast = useToast();
  const showProblem = useProblemToast();
  const [deed, setDeed] = useState<Deed | null>(null);
  const act = useChange("admin.accounts.act", { invalidates: ["admin."] });
  const { document, facts } = account;
  const { name } = document;
  const isEnabled = document.enabled ?? true;
  const isHeld =
    facts.state === "parked" || facts.state === "cooling" || facts.models.some(({ cause }) => cause !== null);
  const close = () => setDeed(null);
  const now = (action: "enable" | "unpark", done: string) =>
    act.mutate(
      { params: { name }, body: { action } },
      { onError: showProblem, onSuccess: () => showToast(done) },
    );
  return (
    <>
      {isEnabled && isHeld && (
        <Button icon="play" isBusy={act.isPending} onClick={() => now("unpark", t.unparked(name))}>
          {t.actions.unpark}
        </Button>
      )}
      {isEnabled ? (
        <Button icon="pause" onClick={() => setDeed("disable")}>
          {t.actions.disable}
        </Button>
      ) : (
        <Button
          icon="play"
          tone="primary"
          isBusy={act.isPending}
          onClick={() => now("enable", t.enabled(name))}
        >
          {t.actions.enable}
        </Button>
      )}
      <Menu label={t.more(name)} icon="more">
        {isEnabled && facts.state !== "parked" && (
          <MenuItem icon="pause" onClick={() => setDeed("park")}>
            {t.actions.park}
          </MenuItem>
        )}
        {kind.credential !== "none" && (
          <MenuItem icon="key" onClick={() => setDeed("credential")}>
            {t.actions.setCredential}
          </MenuItem>
        )}
        <MenuItem icon="trash" tone="danger" onClick={() => setDeed("delete")}>
          {t.actions.delete}
        </MenuItem>
      </Menu>
      {deed === "disable" && <Disable account={account} onClose={close} />}
      {deed === "park" && <Park account={account} onClose={close} />}
      {deed === "credential" && <ReplaceCredential account={account} onClose={close} />}
      {deed === "delete" && <Delete account={account} onClose={close} />}
    </>
  );
}

interface DeedProps {
  account: Account;
  onClose(): void;
}

function lastDay({ usage }: Account): number {
  return usage.find(({ days }) => days === 1)?.requests ?? 0;
}

/** Groups without another enabled account. */
function useOnlyIn({ groups, document }: Account): string[] {
  const all = useList("admin.accounts.list", { query: { limit: 200 } });
  const others = all.rows.filter(
    (other) => other.document.name !== document.name && (other.document.enabled ?? true),
  );
  return all.isLoading ? [] : groups.filter((group) => !others.some((other) => other.groups.includes(group)));
}

function LastAccountNotice({ groups }: { groups: readonly string[] }) {
  const t = useText("adminAccounts");
  const format = useFormat();
  return groups.length === 0 ? null : <Notice tone="warn">{t.disable.last(format.list(groups))}</Notice>;
}

function Disable({ account, onClose }: DeedProps) {
  const t = useText("adminAccounts");
  const showToast = useToast();
  const act = useChange("admin.accounts.act", { invalidates: ["admin."] });
  const onlyIn = useOnlyIn(account);
  const { name } = account.document;
  return (
    <ConfirmDialog
      title={t.disable.title(name)}
      confirm={t.actions.disable}
      requestsLastDay={lastDay(account)}
      onClose={onClose}
      onConfirm={async () => {
        await act.mutateAsync({ params: { name }, body: { action: "disable" } });
        showToast(t.disable.done(name));
      }}
    >
      <p>{t.disable.about}</p>
      <LastAccountNotice groups={onlyIn} />
    </ConfirmDialog>
  );
}

function Park({ account, onClose }: DeedProps) {
  const t = useText("adminAccounts");
  const showToast = useToast();
  const act = useChange("admin.accounts.act", { invalidates: ["admin."] });
  const { name } = account.document;
  return (
    <ConfirmDialog
      title={t.park.title(name)}
      confirm={t.actions.park}
      tone="primary"
      requestsLastDay={lastDay(account)}
      onClose={onClose}
      onConfirm={async () => {
        await act.mutateAsync({ params: { name }, body: { action: "park" } });
        showToast(t.park.done(name));
      }}
    >
      <p>{t.park.about}</p>
    </ConfirmDialog>
  );
}

function ReplaceCredential({ account, onClose }: DeedProps) {
  const t = useText("adminAccounts").credential;
  const actions = useText("adminAccounts").actions;
  const showToast = useToast();
  const set = useChange("admin.accounts.set_credential", { invalidates: ["admin."] });
  const { name } = account.document;
  const form = useForm({ credential: "" }, async (body) => {
    await set.mutateAsync({ params: { name }, body });
    showToast(t.done);
    onClose();
  });
  return (
    <Dialog title={t.title(name)} onClose={onClose}>
      <Form form={form} submit={actions.setCredential} atEnd actions={<CancelButton onClick={onClose} />}>
        <p>{t.about}</p>
        <SecretField {...form.bind("credential")} label={t.label} />
      </Form>
    </Dialog>
  );
}

function Delete({ account, onClose }: DeedProps) {
  const t = useText("adminAccounts");
  const format = useFormat();
  const showToast = useToast();
  const [, go] = useLocation();
  const remove = useChange("admin.accounts.delete", {
    invalidates: ["admin.accounts.list", "admin.groups."],
  });
  const onlyIn = useOnlyIn(account);
  const { name } = account.document;
  return (
    <ConfirmDialog
      title={t.delete.title(name)}
      confirm={t.actions.delete}
      typed={name}
      requestsLastDay={lastDay(account)}
      onClose={onClose}
      onConfirm={async () => {
        await remove.mutateAsync({ params: { name } });
        showToast(t.delete.done(name));
        go("/admin/accounts");
      }}
    >
      <p>{account.groups.length === 0 ? t.delete.none : t.delete.breaks(format.list(account.groups))}</p>
      <LastAccountNotice groups={onlyIn} />
      <p className="soft">{t.delete.keeps}</p>
    </ConfirmDialog>
  );
}
