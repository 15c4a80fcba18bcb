#!/usr/bin/env python3
"""check_metrics.py INGOT: GET /metrics as the parsers of prometheus_client read it.

Both formats must parse, with the same families and values; histograms must add up, and a counter must
not fall. The OpenMetrics parser refuses what the standard does not allow.

Run with the interpreter of tests/peers/venv prometheus; tools/test --e2e does.
"""
import pathlib
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from serving import Server  # noqa: E402

# They change between two scrapes.
MOVING = ("process_", "ingot_last_tick_age", "ingot_connections", "ingot_requests_total")


def families(text, parse):
    return {family.name: family for family in parse(text)}


def samples(found):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value
            for family in found.values() for s in family.samples
            if not s.name.startswith(MOVING) and not s.name.endswith("_created")}


def check_histogram(family):
    """Buckets rise, +Inf is the last one and equals the count."""
    series = {}
    for s in family.samples:
        key = tuple(sorted((k, v) for k, v in s.labels.items() if k != "le"))
        series.setdefault(key, []).append(s)
    for key, group in series.items():
        buckets = [s for s in group if s.name.endswith("_bucket")]
        values = [s.value for s in buckets]
        assert values == sorted(values), (family.name, key)
        assert buckets[-1].labels["le"] == "+Inf", (family.name, key)
        (count,) = (s.value for s in group if s.name.endswith("_count"))
        assert count == values[-1], (family.name, key)


def scrape(server):
    status, headers, text = server.ask("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    status, headers, opened = server.ask("GET", "/metrics", headers={
        "Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert status == 200 and headers["Content-Type"].startswith("application/openmetrics-text")
    one, other = families(text, parse_text), families(opened, parse_open)
    assert set(one) == set(other), set(one) ^ set(other)
    assert samples(one) == samples(other)
    for name, family in one.items():
        assert family.documentation and family.type == other[name].type, name
        if family.type == "histogram":
            check_histogram(family)
    return one


def generated(found):
    return found["ingot_generation_tokens"].samples[0].value


with Server(sys.argv[1], "--drain-delay", "0", "-a", 'odd "name"\\here').ready() as served:
    before = scrape(served)
    assert before["ingot_model_info"].samples[0].labels["id"] == 'odd "name"\\here'
    assert served.post("/v1/completions", {"prompt": "Once", "max_tokens": 5})[0] == 200
    served.until(lambda: generated(scrape(served)) == generated(before) + 5)
    after = scrape(served)
    for name, family in before.items():
        for old, new in zip(family.samples, after[name].samples):
            assert family.type == "gauge" or new.value >= old.value, (name, old, new)
    assert served.stop() == 0
print(f"{len(after)} families in both formats")
