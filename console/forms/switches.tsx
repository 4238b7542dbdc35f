/** The switches of a document that are off by default: a check box for each, with its text. */

import { CheckboxField } from "../ui/field.tsx";

type SwitchName<Document> = {
  [Name in keyof Document]-?: [Document[Name]] extends [boolean | undefined] ? Name : never;
}[keyof Document] &
  string;

/** The names of the switches that the form does not show in another way. */
export type OtherSwitch<Document, Shown extends SwitchName<Document>> = Exclude<SwitchName<Document>, Shown>;

/** The switches that are on. */
export type Switches<Name extends string> = Readonly<Partial<Record<Name, true>>>;

/** `shown` are the switches that the form shows in another way. */
export function readSwitches<Document extends object, Shown extends SwitchName<Document>>(
  document: Document,
  shown: readonly Shown[],
): Switches<OtherSwitch<Document, Shown>> {
  const isOther = (name: string) => !shown.some((one) => one === name);
  const entries = Object.entries(document).filter(([name, value]) => value === true && isOther(name));
  return Object.fromEntries(entries) as Switches<OtherSwitch<Document, Shown>>;
}

interface SwitchFieldsProps<Name extends string> {
  value: Switches<Name>;
  onChange(value: Switches<Name>): void;
  texts: Readonly<Record<Name, { readonly label: string; readonly hint: string }>>;
  problemAt(param: string): string | null;
}

export function SwitchFields<Name extends string>(props: SwitchFieldsProps<Name>) {
  const { value, onChange, texts, problemAt } = props;
  const change = (name: Name, isOn: boolean) => {
    const { [name]: _, ...others } = value;
    onChange({ ...others, ...(isOn && { [name]: true }) } as Switches<Name>);
  };
  return (Object.keys(texts) as Name[]).map((name) => (
    <CheckboxField
      key={name}
      name={name}
      value={value[name] === true}
      onChange={(isOn) => change(name, isOn)}
      problem={problemAt(name)}
      {...texts[name]}
    />
  ));
}
