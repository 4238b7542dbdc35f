/**
 * Measures functions by the layout of their text. The formatter fixes the layout: a function ends at the first line that
 * closes the indentation of its first line.
 */

export interface MeasuredFunction {
  readonly name: string;
  /** The number of its first line, from 1. */
  readonly line: number;
  readonly lines: number;
  /** It returns an object of functions over its own variables: a class in disguise. */
  readonly isClosureObject: boolean;
}

const FUNCTION = /^(\s*)(?:export )?(?:default )?(?:async )?function\*?\s+(\w+)/;
const METHOD =
  /^(\s+)(?:(?:private|protected|public|static|override|async|get|set) )*\*?(#?\w+)(?:<.*>)?\(.*(?:\{|\()$/;
const ARROW = /^(\s*)(?:export )?(?:const|let) (\w+)\b.*(?:=>|\() (?:\{|\()$|^(\s*).*=> [{(]$/;
const STATEMENT =
  /^\s*(?:if|for|while|switch|catch|return|await|throw|else|new|expect|do|test|describe|it)\b/;

export function measureFunctions(text: string): MeasuredFunction[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    const start = parseStart(line);
    if (start === null) return [];
    const end = findEnd(lines, index, start.indent);
    return [
      {
        name: start.name,
        line: index + 1,
        lines: end - index + 1,
        isClosureObject: start.kind === "function" && isClosureObject(lines.slice(index, end), start.indent),
      },
    ];
  });
}

interface FunctionStart {
  kind: "function" | "method" | "arrow";
  name: string;
  indent: string;
}

function parseStart(line: string): FunctionStart | null {
  if (!/[{(]$/.test(line)) return null;
  const declared = FUNCTION.exec(line);
  if (declared !== null) return { kind: "function", indent: declared[1] ?? "", name: declared[2] ?? "" };
  const arrow = ARROW.exec(line);
  if (arrow !== null) {
    return { kind: "arrow", indent: arrow[1] ?? arrow[3] ?? "", name: arrow[2] ?? "(anonymous)" };
  }
  const method = STATEMENT.test(line) ? null : METHOD.exec(line);
  return method === null ? null : { kind: "method", indent: method[1] ?? "", name: method[2] ?? "" };
}

/** A parameter list over several lines closes the same indentation before the body opens. */
function findEnd(lines: readonly string[], start: number, indent: string): number {
  let end = start;
  do {
    end = lines.findIndex((line, at) => at > end && isClosing(line, indent));
    if (end < 0) return lines.length - 1;
  } while (/^\s*[)}>].*[{(]$/.test(lines[end] ?? ""));
  return end;
}

function isClosing(line: string, indent: string): boolean {
  return line.startsWith(`${indent}}`) || line.startsWith(`${indent})`) || line.startsWith(`${indent}>`);
}

function isClosureObject(lines: readonly string[], indent: string): boolean {
  const inner = `${indent}  `;
  const returnsObject = lines.some((line) => line.startsWith(`${inner}return {`));
  const hasState = lines.some(
    (line) => line.startsWith(`${inner}let `) || line.startsWith(`${inner}function `),
  );
  return returnsObject && hasState;
}
