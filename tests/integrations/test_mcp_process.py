"""What a running MCP server keeps in its memory of notes that were erased."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest
from pydantic_core import from_json

import expunge
from expunge.integrations.embedding import words
from expunge.integrations.mcp import Tools
from expunge.integrations.mcp.background import Background
from expunge.integrations.mcp.parsed_strings import forget_parsed_strings
from expunge.integrations.mcp.standard_streams import Lines, standard_streams
from expunge.integrations.mcp.tool_arguments import ToolArguments


def references(text: str) -> int:
    return sys.getrefcount(text)


def test_the_parser_forgets_what_it_has_read() -> None:
    """As the protocol's package reads a body over HTTP: the parser itself holds a note's text from then on."""
    texts = from_json(json.dumps([f"note {number}" for number in range(100)]))
    before = [references(text) for text in texts]
    forget_parsed_strings()
    after = [references(text) for text in texts]
    assert sum(before) - sum(after) == len(texts), "the parser held each text once, and holds none now"


def test_arguments_are_not_kept_by_the_parser() -> None:
    arguments = ToolArguments("remember", Tools.remember)
    taken = arguments.checked({"text": "the green bicycle of a person", "notes": [{"text": "a note of a person"}]})
    before = references(taken["text"]), references(taken["notes"][0].text)
    forget_parsed_strings()
    after = references(taken["text"]), references(taken["notes"][0].text)
    assert before == after


def test_a_step_lets_go_of_what_another_process_has_erased(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with expunge.open(url) as store, expunge.open(url) as other:
        here, there = Tools(store, embed=words), Tools(other, embed=words)
        name = here.remember("the divorce", subject="ann").id
        here.remember("green tea", subject="ann")
        assert here.list_notes().total == 2
        background = Background(store)
        background.step()
        payloads = store["notes"].version.entries.payloads
        there.forget([name])
        read = from_json('["the divorce of a person"]')
        before = references(read[0])
        background.step()
        assert not any(payload and b"divorce" in payload for payload in payloads)
        after = references(read[0])
        assert after == before - 1


def test_lines_come_out_whole_and_leave_nothing_behind() -> None:
    reading, writing = os.pipe()
    sender, receiver = Lines(writing), Lines(reading)
    texts = ["short", "x" * 300_000, "Zoë 🚲 \u2028 and more", "", "last"]

    def send() -> None:
        for text in texts:
            assert sender.write(text + "\n") == len(text) + 1
            sender.flush()
        os.write(writing, b"no end, and no text: \xff")
        os.close(writing)

    thread = threading.Thread(target=send)
    thread.start()
    assert [receiver.readline() for _ in texts] == [text + "\n" for text in texts]
    assert receiver.readline() == "no end, and no text: \ufffd"
    assert receiver.readline() == ""
    thread.join()
    os.close(reading)
    assert b"x" not in vars(receiver)["_rest"]


def test_nobody_else_writes_to_the_client(capfd: pytest.CaptureFixture[str]) -> None:
    with standard_streams() as (_, answers):
        os.write(1, b"by the way\n")
        answers.write("an answer\n")
    os.write(1, b"afterwards\n")
    assert capfd.readouterr() == ("an answer\nafterwards\n", "by the way\n")
