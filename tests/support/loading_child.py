"""A process that reads batches of a loader, writes each number and its state to files, and waits to be killed.

``python -m tests.support.loading_child TABLE LOG STATE STOP``: rows go to LOG, the state to STATE. After STOP
batches it hangs; with STOP -1 it runs to its end. If STATE is there, it resumes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import smalti


def main(table: str, log: str, state: str, stop: int) -> None:
    loader = smalti.loader(table, ["id"], 37, shuffle=True, seed=11, epochs=2, buffer_bytes=4000)
    if Path(state).exists():
        loader.load_state_dict(json.loads(Path(state).read_text()))
    with Path(log).open("a") as out:
        for count, batch in enumerate(loader):
            if count == stop:
                print("ready", flush=True)
                time.sleep(600)
            out.write(" ".join(map(str, batch["id"])) + "\n")
            out.flush()
            Path(state + ".new").write_text(json.dumps(loader.state_dict()))
            Path(state + ".new").replace(state)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
