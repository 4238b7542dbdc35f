"""The calls of OpenAI's Python SDK that the documentation uses, over HTTP. The package itself cannot be installed in
tests, and this one sends the same requests: the base URL and the path of the operation, with the key as a bearer token."""

import json
import urllib.request
from types import SimpleNamespace


class Model(SimpleNamespace):
    """A member that the response does not have is None, as in the SDK."""

    def __getattr__(self, name):
        return None


def to_object(text):
    return json.loads(text, object_hook=lambda members: Model(**members))


class OpenAI:
    def __init__(self, *, base_url, api_key):
        self._base_url = base_url
        self._api_key = api_key
        self.responses = SimpleNamespace(create=self._create_response)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create_completion))

    def _post(self, path, body):
        headers = {"authorization": f"Bearer {self._api_key}", "content-type": "application/json"}
        request = urllib.request.Request(self._base_url + path, json.dumps(body).encode(), headers)
        return urllib.request.urlopen(request, timeout=30)

    def _create_response(self, **body):
        with self._post("/responses", body) as answer:
            response = to_object(answer.read())
        texts = [part.text for item in response.output if item.type == "message" for part in item.content]
        response.output_text = "".join(texts)
        return response

    def _create_completion(self, **body):
        with self._post("/chat/completions", body) as answer:
            for line in answer:
                data = line.decode().strip().removeprefix("data: ")
                if data not in ("", "[DONE]") and not data.startswith(":"):
                    yield to_object(data)
