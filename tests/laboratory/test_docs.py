"""The examples of docs/benchmark.md, and the commands of all pages."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.tuning.layers import load_layers
from winogen_lab import nets, peers
from winogen_lab.bench import report
from winogen_lab.bench import runner as layers_runner
from winogen_lab.nets import runner

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
# On a line of their own, or in backquotes; instruction sets are not those of every machine.
_COMMAND = re.compile(
    r"(?:^|`)(?:WINOGEN_ISA=\S+ )?(winogen bench\b.*?)(?:`|  +#.*|$)", re.MULTILINE
)
COMMANDS = sorted(
    {
        command
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for command in _COMMAND.findall(page.read_text(encoding="utf-8"))
    }
)


def test_there_are_examples():
    assert len(COMMANDS) >= 30


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command, document, nets_document, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(layers_runner, "run", lambda layers, settings, say: document)
    monkeypatch.setattr(runner, "run_nets", lambda *arguments: nets_document)
    monkeypatch.setattr(peers.Peer, "missing", lambda peer: None)
    monkeypatch.setattr(nets.Net, "missing", lambda net: None)  # whatever is installed here
    report.save(document, "resnet.json")
    nets.report.save(nets_document, "nets.json")
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output


def test_the_layer_file(tmp_path):
    (block,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path / "mine.json"
    path.write_text(block)
    assert [layer.name for layer in load_layers(str(path))] == [
        row["name"] for row in json.loads(block)
    ]


def test_the_json_fields_are_those_written(document):
    block = TEXT.split("## The JSON file")[1].partition("The file of `--nets`")[0]
    for layer in document["layers"]:
        for field in set(layer) | set(document["summary"]) - {"layers", "failed"}:
            if field not in ("roofline_share", "max_workspace_bytes"):
                assert f'"{field}"' in block, field


def test_the_fields_of_nets_are_those_written(nets_document):
    block = TEXT.split("The file of `--nets`")[1]
    (first, *_) = nets_document["nets"]
    fields = {*nets_document, *first, *first["contestants"]["torch"], *nets_document["summary"]}
    fields |= {*nets_document["summary"]["contestants"]["torch"], "way", "best_s", "error"}
    for field in fields:
        assert f'"{field}"' in block, field


def test_every_net_and_contestant_is_explained():
    section = TEXT.split("## Whole nets")[1].split("\n## ")[0]
    for name in nets.NETS:
        assert f"`{name}`" in section
    for name in (*peers.RIVALS["net"], *peers.OUR_NETS):
        assert f"\n| {name} |" in section
