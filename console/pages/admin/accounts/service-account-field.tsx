/** The key file of a Google service account, pasted or read from a file. */

import type { ChangeEvent } from "react";
import { useText } from "../../../text/text.tsx";
import { type FieldBinding, TextAreaField } from "../../../ui/field.tsx";

/** A key file has about 2 KB. */
const FILE_BYTES_MAX = 64 * 1024;

interface ServiceAccountFieldProps extends FieldBinding<string> {
  hasCredential: boolean;
}

export function ServiceAccountField({ hasCredential, ...field }: ServiceAccountFieldProps) {
  const t = useText("adminAccounts").form;
  const readFile = async (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0];
    // The same file can be chosen again.
    event.target.value = "";
    if (file !== undefined && file.size <= FILE_BYTES_MAX) field.onChange(await file.text());
  };
  return (
    <>
      <TextAreaField
        {...field}
        label={t.serviceAccount}
        hint={hasCredential ? t.credentialKept : t.serviceAccountHint}
        placeholder={'{ "type": "service_account", … }'}
        isCode
        rows={4}
      />
      <div className="row">
        <label className="button plain file-button small">
          {t.serviceAccountFile}
          <input type="file" className="unseen" accept=".json,application/json" onChange={readFile} />
        </label>
      </div>
    </>
  );
}
