/** Writes requests in languages that send them over plain HTTP. */

import {
  formText,
  indented,
  isForm,
  json,
  KEY_VARIABLE,
  quoted,
  type SnippetRequest,
  streams,
} from "./snippet.ts";

export function curl(request: SnippetRequest): string {
  const { method, body } = request;
  const lines = [`curl ${streams(request) ? "-N " : ""}${quoted(request.baseUrl + request.path, "shell")}`];
  if (method === "DELETE") lines.push("  -X DELETE");
  lines.push(`  -H "Authorization: Bearer $${KEY_VARIABLE}"`);
  if (isForm(request)) {
    for (const [name, value] of Object.entries(body ?? {})) {
      // -F would read a leading @ as the name of a file.
      lines.push(`  --form-string ${quoted(`${name}=${formText(value)}`, "shell")}`);
    }
    for (const { field, name } of request.files) lines.push(`  -F ${quoted(`${field}=@${name}`, "shell")}`);
  } else if (body !== null) {
    lines.push('  -H "Content-Type: application/json"', `  -d ${quoted(json(body), "shell")}`);
  } else if (method === "POST") lines.push("  -X POST");
  return lines.join(" \\\n");
}

export function fetchCode(request: SnippetRequest): string {
  const { method, body, files } = request;
  const options = [`  method: "${method}",`];
  const headers = [`Authorization: \`Bearer \${process.env.${KEY_VARIABLE}}\``];
  let before = "";
  if (isForm(request)) {
    const lines = Object.entries(body ?? {}).map(
      ([name, value]) => `form.set(${quoted(name, "javascript")}, ${quoted(formText(value), "javascript")});`,
    );
    const added = files.map(
      ({ field, name }) =>
        `form.append(${quoted(field, "javascript")}, await openAsBlob(${quoted(name, "javascript")}), ${quoted(name, "javascript")});`,
    );
    before = `import { openAsBlob } from "node:fs";\n\nconst form = new FormData();\n${[...lines, ...added].join("\n")}\n\n`;
    options.push("  body: form,");
  } else if (body !== null) {
    headers.push('"Content-Type": "application/json"');
    options.push(`  body: JSON.stringify(${indented(json(body), "  ")}),`);
  }
  options.splice(1, 0, `  headers: { ${headers.join(", ")} },`);
  const use = streams(request)
    ? "for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) process.stdout.write(chunk);"
    : "console.log(await response.json());";
  return `${before}const response = await fetch(${quoted(request.baseUrl + request.path, "javascript")}, {
${options.join("\n")}
});
${use}`;
}

export function go(request: SnippetRequest): string {
  if (isForm(request)) return goForm(request);
  const { method, body } = request;
  const payload = body === null ? "nil" : `strings.NewReader(${quoted(json(body), "go")})`;
  const imports = ["fmt", "io", "net/http", "os", ...(body === null ? [] : ["strings"])];
  return `package main

import (
${imports.map((name) => `\t"${name}"`).join("\n")}
)

func main() {
	request, err := http.NewRequest("${method}", ${quoted(request.baseUrl + request.path, "go")}, ${payload})
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("${KEY_VARIABLE}"))
${body === null ? "" : '\trequest.Header.Set("Content-Type", "application/json")\n'}	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		panic(err)
	}
	fmt.Println()
}`;
}

function goForm(request: SnippetRequest): string {
  const fields = Object.entries(request.body ?? {}).map(
    ([name, value]) => `\tform.WriteField(${quoted(name, "go")}, ${quoted(formText(value), "go")})`,
  );
  const files = request.files.map(
    ({ field, name }) => `\taddFile(form, ${quoted(field, "go")}, ${quoted(name, "go")})`,
  );
  return `package main

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
)

func addFile(form *multipart.Writer, field, name string) {
	content, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	part, err := form.CreateFormFile(field, name)
	if err != nil {
		panic(err)
	}
	part.Write(content)
}

func main() {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
${[...fields, ...files].join("\n")}
	form.Close()
	request, err := http.NewRequest("${request.method}", ${quoted(request.baseUrl + request.path, "go")}, &body)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("${KEY_VARIABLE}"))
	request.Header.Set("Content-Type", form.FormDataContentType())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	io.Copy(os.Stdout, response.Body)
}`;
}

/** Returns null for forms, which the standard library does not support. */
export function java(request: SnippetRequest): string | null {
  if (isForm(request)) return null;
  const { method, body } = request;
  const publisher =
    body === null
      ? "HttpRequest.BodyPublishers.noBody()"
      : `HttpRequest.BodyPublishers.ofString(${quoted(json(body), "java")})`;
  const type = body === null ? "" : '\n            .header("Content-Type", "application/json")';
  return `import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Main {
    public static void main(String[] args) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(${quoted(request.baseUrl + request.path, "java")}))
            .header("Authorization", "Bearer " + System.getenv("${KEY_VARIABLE}"))${type}
            .method("${method}", ${publisher})
            .build();
        HttpClient.newHttpClient()
            .send(request, HttpResponse.BodyHandlers.ofLines())
            .body()
            .forEach(System.out::println);
    }
}`;
}

/** Returns null for several images of one field: a PHP form has each name once. */
export function php(request: SnippetRequest): string | null {
  const { method, body, files } = request;
  if (new Set(files.map(({ field }) => field)).size < files.length) return null;
  const headers = [`"Authorization: Bearer " . getenv("${KEY_VARIABLE}")`];
  const options = [`    CURLOPT_CUSTOMREQUEST => "${method}",`];
  if (isForm(request)) {
    const fields = [
      ...Object.entries(body ?? {}).map(([name, value]) => [name, quoted(formText(value), "php")]),
      ...files.map(({ field, name }) => [field, `new CURLFile(${quoted(name, "php")})`]),
    ];
    const lines = fields.map(([name = "", value]) => `        ${quoted(name, "php")} => ${value},`);
    options.push(`    CURLOPT_POSTFIELDS => [\n${lines.join("\n")}\n    ],`);
  } else if (body !== null) {
    headers.push('"Content-Type: application/json"');
    options.push(`    CURLOPT_POSTFIELDS => ${quoted(json(body), "php")},`);
  }
  options.splice(1, 0, `    CURLOPT_HTTPHEADER => [${headers.join(", ")}],`);
  return `<?php
$request = curl_init(${quoted(request.baseUrl + request.path, "php")});
curl_setopt_array($request, [
${options.join("\n")}
    CURLOPT_WRITEFUNCTION => function ($request, $data) {
        echo $data;
        return strlen($data);
    },
]);
curl_exec($request);
curl_close($request);`;
}

export function ruby(request: SnippetRequest): string {
  const { method, body, files } = request;
  const kind = { GET: "Get", POST: "Post", DELETE: "Delete" }[method];
  const lines = [
    'require "net/http"',
    "",
    `uri = URI(${quoted(request.baseUrl + request.path, "ruby")})`,
    `request = Net::HTTP::${kind}.new(uri)`,
    `request["Authorization"] = "Bearer #{ENV.fetch("${KEY_VARIABLE}")}"`,
  ];
  if (isForm(request)) {
    const fields = [
      ...Object.entries(body ?? {}).map(
        ([name, value]) => `[${quoted(name, "ruby")}, ${quoted(formText(value), "ruby")}]`,
      ),
      ...files.map(({ field, name }) => `[${quoted(field, "ruby")}, File.open(${quoted(name, "ruby")})]`),
    ];
    lines.push(`request.set_form([${fields.join(", ")}], "multipart/form-data")`);
  } else if (body !== null) {
    lines.push(
      'request["Content-Type"] = "application/json"',
      `request.body = ${quoted(json(body), "ruby")}`,
    );
  }
  lines.push(
    "",
    'Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https") do |http|',
    "  http.request(request) { |response| response.read_body { |part| print part } }",
    "end",
  );
  return lines.join("\n");
}

export function csharp(request: SnippetRequest): string {
  const { method, body } = request;
  const content = isForm(request)
    ? csharpForm(request)
    : body === null
      ? ""
      : `request.Content = new StringContent(${quoted(json(body), "csharp")}, System.Text.Encoding.UTF8, "application/json");\n`;
  const verb = { GET: "Get", POST: "Post", DELETE: "Delete" }[method];
  return `using System.Net.Http.Headers;

using var client = new HttpClient();
using var request = new HttpRequestMessage(HttpMethod.${verb}, ${quoted(request.baseUrl + request.path, "csharp")});
request.Headers.Authorization = new AuthenticationHeaderValue(
    "Bearer", Environment.GetEnvironmentVariable("${KEY_VARIABLE}"));
${content}using var response = await client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead);
await response.Content.CopyToAsync(Console.OpenStandardOutput());`;
}

function csharpForm({ body, files }: SnippetRequest): string {
  const parts = [
    ...Object.entries(body ?? {}).map(
      ([name, value]) =>
        `    { new StringContent(${quoted(formText(value), "csharp")}), ${quoted(name, "csharp")} },`,
    ),
    ...files.map(({ field, name }) => {
      const file = quoted(name, "csharp");
      return `    { new StreamContent(File.OpenRead(${file})), ${quoted(field, "csharp")}, ${file} },`;
    }),
  ];
  return `request.Content = new MultipartFormDataContent\n{\n${parts.join("\n")}\n};\n`;
}
