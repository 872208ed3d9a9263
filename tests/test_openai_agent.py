"""The agent behind an OpenAI-compatible endpoint, against a test double that speaks HTTP."""

import http.server
import json
import threading

import pytest

from pipeline.agents.protocol import ContextLimit, InfrastructureError, Message
from pipeline.agents.registry import build


@pytest.fixture
def endpoint():
    """A test double of an OpenAI-compatible server: answers each request with the next of its scripted replies."""
    replies, asked = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, body = replies.pop(0) if len(replies) > 1 else replies[0]
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", replies, asked
    server.shutdown()
    server.server_close()


def chat(text, **usage):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage or None,
    }


def openai_agent(url, **parameters):
    return build("openai", {"model": "m", "base_url": url, "retries": 0, "timeout": 5.0} | parameters)


def test_an_openai_endpoint_is_asked_greedily_with_the_transcript_as_it_is(endpoint):
    url, replies, asked = endpoint
    replies.append((200, chat("look", prompt_tokens=7, completion_tokens=2, total_tokens=9)))
    messages = [
        Message("system", "rules"),
        Message("user", "a room"),
        Message("assistant", "look"),
        Message("user", "nothing"),
    ]
    completion = openai_agent(url, seed=3, chat_template_kwargs={"enable_thinking": False}).complete(messages)
    assert (completion.text, completion.prompt_tokens, completion.completion_tokens) == ("look", 7, 2)
    assert asked[0]["messages"] == [{"role": m.role, "content": m.content} for m in messages]
    assert (asked[0]["temperature"], asked[0]["seed"], asked[0]["max_tokens"]) == (0.0, 3, 200)
    assert asked[0]["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, {"error": {"message": "boom"}}, InfrastructureError),
        (429, {"error": {"message": "slow down"}}, InfrastructureError),
        (400, {"error": {"message": "bad request"}}, InfrastructureError),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}, ContextLimit),
        (200, b"no json", InfrastructureError),
        (200, {"choices": []}, InfrastructureError),
        (200, {}, InfrastructureError),
    ],
)
def test_what_goes_wrong_with_an_endpoint_is_never_the_agents_turn(endpoint, status, body, error):
    url, replies, _ = endpoint
    replies.append((status, body))
    with pytest.raises(error):
        openai_agent(url).complete([Message("user", "a room")])


def test_an_endpoint_that_recovers_is_asked_again(endpoint):
    url, replies, asked = endpoint
    replies += [(500, {}), (200, chat("look"))]
    assert openai_agent(url, retries=1).complete([Message("user", "a room")]).text == "look"
    assert len(asked) == 2


def test_an_endpoint_that_is_not_there_is_infrastructure():
    with pytest.raises(InfrastructureError):
        openai_agent("http://127.0.0.1:9/v1").complete([Message("user", "a room")])


def test_an_openai_agents_identity_is_what_determines_its_replies():
    def identity(**parameters):
        return openai_agent("http://127.0.0.1:9/v1", **parameters).identity

    assert identity() == identity(timeout=1.0, retries=3)
    assert identity() == openai_agent("http://127.0.0.1:10/v1").identity
    for change in ({"seed": 1}, {"model": "n"}, {"revision": "r"}, {"max_tokens": 9}, {"temperature": 0.5}):
        assert identity() != identity(**change)
