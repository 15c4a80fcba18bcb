#!/usr/bin/env python3
"""check_openai.py INGOT: OpenAI's own client against `ingot serve` with the bundled story model.

The client parses every reply into its types, decodes base64 vectors and raises an exception for each
kind of error, so what it accepts is what its users can use.
"""
import asyncio
import math
import pathlib
import struct
import sys

import openai

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from serving import Server  # noqa: E402

HI = [{"role": "user", "content": "Once upon a time"}]
PROMPT = "Once upon a time"


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def raises(kind, call, *words):
    """Calls and returns the exception, which must be of this kind."""
    try:
        call()
    except kind as error:
        for word in words:
            check(word in str(error), f"{word!r} is not in {error}")
        return error
    raise AssertionError(f"no {kind.__name__}")


def chat(client, **more):
    return client.chat.completions.create(model="any", messages=HI, **{"max_tokens": 16, **more})


def chats(client):
    reply = chat(client, temperature=0)
    choice = reply.choices[0]
    check(reply.object == "chat.completion" and reply.id.startswith("chatcmpl-"), reply)
    check(choice.message.role == "assistant" and choice.message.content, reply)
    check(choice.finish_reason in ("stop", "length"), reply)
    usage = reply.usage
    check(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage)
    again = chat(client, temperature=0)
    check(again.choices[0].message.content == choice.message.content, "greedy replies differ")
    check(again.usage.prompt_tokens_details.cached_tokens > 0, again.usage)
    return choice.message.content


def chat_streams(client, want):
    chunks = list(chat(client, temperature=0, stream=True, stream_options={"include_usage": True}))
    check(len({chunk.id for chunk in chunks}) == 1, "ids differ")
    check(chunks[0].choices[0].delta.role == "assistant", chunks[0])
    check(chunks[0].choices[0].delta.content is None, chunks[0])
    check(chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0, chunks[-1])
    check(chunks[-2].choices[0].finish_reason in ("stop", "length"), chunks[-2])
    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    check("".join(delta.content or "" for delta in deltas) == want, "stream and reply differ")


def stream_helper(client, want):
    """The client's accumulator checks the order of chunks itself."""
    with client.chat.completions.stream(model="any", messages=HI, max_tokens=16,
                                        temperature=0) as stream:
        for _ in stream:
            pass
        try:
            final = stream.get_final_completion()
        except openai.LengthFinishReasonError as error:  # how it tells of max_tokens
            final = error.completion
    check(final.choices[0].message.content == want, final)


def logprobs(client):
    reply = chat(client, logprobs=True, top_logprobs=3, n=2, seed=1)
    check([choice.index for choice in reply.choices] == [0, 1], reply)
    for choice in reply.choices:
        tokens = choice.logprobs.content
        check("".join(token.token for token in tokens) == choice.message.content, choice)
        check(all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens), choice)


def completions(client):
    reply = client.completions.create(model="any", prompt=[PROMPT, "The cat"], max_tokens=4, n=2,
                                      logprobs=2, echo=True, seed=3)
    check([choice.index for choice in reply.choices] == [0, 1, 2, 3], reply)
    check(reply.choices[0].text.startswith(PROMPT), reply)
    check(reply.choices[2].text.startswith("The cat"), reply)
    legacy = reply.choices[0].logprobs
    check(legacy.token_logprobs[0] is None and legacy.token_logprobs[1] <= 0, legacy)
    check(len(legacy.tokens) == len(legacy.text_offset) == len(legacy.top_logprobs), legacy)
    parts = client.completions.create(model="any", prompt=PROMPT, max_tokens=8, temperature=0,
                                      stream=True)
    text = "".join(part.choices[0].text for part in parts)
    whole = client.completions.create(model="any", prompt=PROMPT, max_tokens=8, temperature=0)
    check(text == whole.choices[0].text, "stream and reply differ")


def embeddings(client):
    """The client asks for base64 by default."""
    coded = client.embeddings.create(model="any", input=["a cat", "a dog"])
    plain = client.embeddings.create(model="any", input="a dog", encoding_format="float")
    floats = [struct.pack("<%df" % len(e), *e) for e in
              (coded.data[1].embedding, plain.data[0].embedding)]
    check(floats[0] == floats[1], "base64 and floats differ")
    short = client.embeddings.create(model="any", input="a dog", dimensions=8)
    vector = short.data[0].embedding
    check(len(vector) == 8 and abs(math.hypot(*vector) - 1) < 1e-5, vector)


def models(client):
    names = [model.id for model in client.models.list()]
    check(len(names) == 1, names)
    check(client.models.retrieve(names[0]).id == names[0], names)
    raises(openai.NotFoundError, lambda: client.models.retrieve("a/b"), "does not exist")


def errors(client):
    error = raises(openai.BadRequestError, lambda: chat(client, temperature=11), "temperature")
    check(error.param == "temperature" and error.type == "invalid_request_error", error)
    error = raises(openai.BadRequestError, lambda: client.completions.create(
        model="any", prompt="word " * 5000), "tokens")
    check(error.type == "exceed_context_size_error", error)
    raises(openai.BadRequestError, lambda: chat(client, stream=True, n=129), "n is 129")
    raises(openai.BadRequestError, lambda: chat(
        client, response_format={"type": "json_object"}), "not supported yet")
    raises(openai.InternalServerError, lambda: client.responses.create(
        model="any", input="Hi"), "not supported yet")


async def many(url):
    """Concurrent replies are those of a lone client."""
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        def ask(i):
            return client.completions.create(model="any", prompt=PROMPT, max_tokens=12, seed=i)

        alone = [(await ask(i)).choices[0].text for i in range(8)]
        together = await asyncio.gather(*(ask(i) for i in range(8)))
        check([reply.choices[0].text for reply in together] == alone, "replies differ under load")


def main():
    with Server(sys.argv[1], "--chat-template", "chatml") as server:
        server.ready()
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        want = chats(client)
        chat_streams(client, want)
        stream_helper(client, want)
        for part in (logprobs, completions, embeddings, models, errors):
            part(client)
        asyncio.run(many(server.url))
        client.close()
        check(server.stop() == 0, server.log())
    print("openai", openai.__version__, "understands all replies")


if __name__ == "__main__":
    main()
