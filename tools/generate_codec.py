"""Generates the Kafka codec: `src/qanat/wire/kafka/messages/`, one module per API.

    python tools/generate_codec.py            # or: make codec
    python tools/generate_codec.py --check    # says what is stale, changes nothing

The result is checked in. kio, where the schemas come from, is therefore needed
only here and in tests. How it works: `tools/codec/__init__.py`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "qanat" / "wire" / "kafka" / "messages"

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools.codec import api_source, kio_source, record_source  # noqa: E402
from tools.codec.index import api_table, package_text, record_table  # noqa: E402
from tools.codec.module import api_module, data_module  # noqa: E402
from tools.codec.schema import Message  # noqa: E402

CONSUMER_PROTOCOL = "What classic consumers exchange inside JoinGroup and SyncGroup."


def render() -> dict[str, str]:
    """File name to formatted text, for everything that is generated."""
    apis = api_source.all_apis()
    records = record_source.record_modules()
    texts = {f"{api.module}.py": api_module(api) for api in apis}
    texts["consumer_protocol.py"] = data_module(CONSUMER_PROTOCOL, _consumer_protocol())
    for name, module in records.items():
        texts[f"{name}.py"] = data_module(module["title"], record_source.messages(module))
    texts["api_table.py"] = api_table(api_source.api_keys(), apis)
    texts["record_table.py"] = record_table(records)
    texts["__init__.py"] = package_text()
    return _formatted(texts)


def _consumer_protocol() -> list[Message]:
    """Both parts have a `TopicPartition`; in one module each says whose it is."""
    return [
        kio_source.data_message(f"consumer_protocol_{part}").rename({"TopicPartition": f"{part.title()}TopicPartition"})
        for part in ("subscription", "assignment")
    ]


def _formatted(texts: dict[str, str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text)
        config = str(ROOT / "pyproject.toml")
        for command in (["check", "--fix-only", "--select", "I", "--no-cache"], ["format", "--no-cache"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, "-q", "--config", config, folder], check=True)
        return {name: Path(folder, name).read_text() for name in texts}


def stale(texts: dict[str, str]) -> list[str]:
    """The files that are missing, differ or should not be there."""
    present = {path.name: path.read_text() for path in TARGET.glob("*.py")}
    return sorted(name for name in texts.keys() | present.keys() if texts.get(name) != present.get(name))


def main() -> int:
    texts = render()
    changed = stale(texts)
    if "--check" in sys.argv[1:]:
        print("\n".join(changed) or "The codec is what the schemas say.")
        return 1 if changed else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in changed:
        path = TARGET / name
        if name in texts:
            path.write_text(texts[name])
        else:
            path.unlink()
    print(f"{len(texts)} modules, {len(changed)} changed, {sum(text.count(chr(10)) for text in texts.values())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
