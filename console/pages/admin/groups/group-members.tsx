/** Who may create keys in a restricted group. Changes apply at once: they are not part of the form. */

import { useState } from "react";
import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { IconButton } from "../../../ui/button.tsx";
import { TextField } from "../../../ui/field.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { Table } from "../../../ui/table.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";

export function GroupMembers({ name }: { name: string }) {
  const t = useText("adminGroups").members;
  const [search, setSearch] = useState("");
  const showToast = useToast();
  const showProblem = useProblemToast();
  const members = useList("admin.groups.members", { params: { name }, query: { search } });
  const invalidates = ["admin.groups."] as const;
  const add = useChange("admin.groups.add_member", { invalidates });
  const remove = useChange("admin.groups.remove_member", { invalidates });
  const form = useForm({ email: "" }, async ({ email }) => {
    await add.mutateAsync({ params: { name }, body: { email: email.trim() } });
    showToast(t.added(email.trim()));
    form.reset({ email: "" });
  });
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        <Form form={form} submit={t.add}>
          <TextField {...form.bind("email")} type="email" label={t.email} />
        </Form>
      </Card>
      {(members.rows.length > 0 || search !== "") && <SearchBox label={t.search} onSearch={setSearch} />}
      <Table
        label={t.title}
        rows={members}
        rowKey={(member) => member.user_id}
        columns={[
          { key: "email", header: t.email, cell: (member) => member.email },
          {
            key: "tools",
            header: t.remove,
            kind: "tools",
            cell: (member) => (
              <IconButton
                small
                icon="close"
                label={t.removeOne(member.email)}
                onClick={() =>
                  remove.mutate({ params: { name, email: member.email } }, { onError: showProblem })
                }
              />
            ),
          },
        ]}
        empty={
          <EmptyState icon="users" title={search === "" ? t.none : t.notFound}>
            {search === "" && <p>{t.noneYet}</p>}
          </EmptyState>
        }
      />
    </Section>
  );
}
