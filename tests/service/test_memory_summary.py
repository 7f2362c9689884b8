"""A memory in numbers, over HTTP."""

from __future__ import annotations

from expunge.preprocessing.embedder_identity import EmbedderIdentity
from expunge.preprocessing.preprocessing import Column, Preprocessing
from expunge.service.schemas.memory_responses import MemorySummary
from service.service_client import ServiceClient

DIGEST = "5f" * 32


def test_the_embedder_is_named_with_columns_and_without(service: ServiceClient) -> None:
    keys, values = [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], [1.0, 2.0, 9.0]
    embedder = EmbedderIdentity("minilm", DIGEST)
    plain = Preprocessing(embedder=embedder)
    named = Preprocessing(keys=(Column("a"), Column("b")), values=(Column("c"),), embedder=embedder)
    for name, preprocessing in (("plain", plain), ("named", named)):
        service.store.create(name, keys, values, sigma=5.0, cap=1.0, preprocessing=preprocessing)
        found = MemorySummary.model_validate(service.request("GET", f"/v1/memories/{name}", status=200))
        assert found.embedder is not None
        assert (found.embedder.name, found.embedder.digest) == ("minilm", DIGEST)
        assert (found.preprocessing is None) == (name == "plain")
    assert service.request("GET", "/v1/memories/icu", status=200)["embedder"] is None
