"""What the usage so far costs a vLLM server in each frame: CPU time and bytes to make one chunk of a chat, without and with it.

Run it with the Python of a vLLM 0.32 environment: VENV/bin/python bench/running-usage.py
"""

import statistics
import time

from vllm.entrypoints.generate.base.protocol import DeltaMessage
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionResponseStreamChoice,
    ChatCompletionStreamResponse,
)
from vllm.entrypoints.serve.engine.protocol import UsageInfo

CHUNKS = 20_000
ROUNDS = 7


def chunk(usage: bool, tokens: int) -> str:
    """Make a chunk as the server makes one for a token."""
    choice = ChatCompletionResponseStreamChoice(index=0, delta=DeltaMessage(content=" token"), logprobs=None, finish_reason=None)
    response = ChatCompletionStreamResponse(
        id="chatcmpl-b0bef57138dd8c28", object="chat.completion.chunk", created=1795397780, choices=[choice], model="tiny"
    )
    if usage:
        response.usage = UsageInfo(prompt_tokens=12, completion_tokens=tokens, total_tokens=12 + tokens)
    return response.model_dump_json(exclude_unset=True)


def cost(usage: bool) -> float:
    """CPU microseconds of a chunk."""
    start = time.process_time()
    for i in range(CHUNKS):
        chunk(usage, i)
    return (time.process_time() - start) / CHUNKS * 1e6


cost(False)
rounds = [(cost(False), cost(True)) for _ in range(ROUNDS)]
without, with_usage = (statistics.median(r) for r in zip(*rounds))
more = statistics.median(b - a for a, b in rounds)
print(f"without {without:.1f} us, with {with_usage:.1f} us, difference {more:.1f} us (medians of {ROUNDS} rounds of {CHUNKS} chunks)")
print(f"bytes: {len(chunk(False, 100))} without, {len(chunk(True, 100))} with")
