"""Measures a streaming LLM endpoint with Locust, as its users do: TTFT, ITL and TPOT are timed in the user's own code and fired as request events.

PEERS_REQUESTS requests in all are sent; PEERS_OUTPUT_TOKENS tokens are asked of each. Their statistics are those of Locust's --csv files.
"""

import json
import os
import time

import gevent
import locust.stats
from locust import HttpUser, constant, events, task
from locust.exception import StopUser

owed = int(os.environ["PEERS_REQUESTS"])
under_way = 0
BODY = {
    "model": "m",
    "prompt": os.environ["PEERS_PROMPT"],
    "max_tokens": int(os.environ["PEERS_OUTPUT_TOKENS"]),
    "ignore_eos": True,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def fire(kind, seconds):
    events.request.fire(request_type=kind, name="stream", response_time=seconds * 1000, response_length=0, exception=None, context={})


class Streamer(HttpUser):
    wait_time = constant(0)

    @task
    def stream(self):
        global owed, under_way
        if owed == 0:
            raise StopUser
        owed -= 1
        under_way += 1
        try:
            self.measure()
        finally:
            under_way -= 1
            if owed == 0 and under_way == 0:
                gevent.spawn_later(2 * locust.stats.CSV_STATS_INTERVAL_SEC, self.environment.runner.quit)  # its files are complete by then

    def measure(self):
        start = time.perf_counter()
        first = last = None
        tokens = 0
        with self.client.post("/v1/completions", json=BODY, stream=True, catch_response=True) as response:
            for line in response.iter_lines():
                if not line.startswith(b"data: ") or line == b"data: [DONE]":
                    continue
                data = json.loads(line[6:])
                if data.get("choices") and data["choices"][0].get("text"):
                    now = time.perf_counter()
                    if first is None:
                        first = now
                        fire("TTFT", now - start)
                    else:
                        fire("ITL", now - last)
                    last = now
                if data.get("usage"):
                    tokens = data["usage"]["completion_tokens"]
        if tokens > 1:
            fire("TPOT", (last - first) / (tokens - 1))
