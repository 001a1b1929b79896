"""Check that the Lua scripts fit their headers and the blocks that they include.

python .ci/check_scripts.py               names each line that is wrong, and ends with 1
python .ci/check_scripts.py --luacheck    the same, then runs luacheck on the scripts as Redis gets them
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rqtui.errors import ScriptError
from rqtui.scripts.script import list_script_folders, load_scripts
from rqtui.testing import include_lint, script_lint

ROOT = Path(__file__).resolve().parent.parent


def list_script_faults() -> list[str]:
    """Return a sentence for each mistake in a Lua script, in a shared block, or in how they include each other."""
    folders = [load_scripts(name) for name in list_script_folders()]
    scripts = [script for folder in folders for script in folder.values()]
    blocks = {block.path: block for folder in folders for block in folder.blocks.values()}
    faults = [sentence for block in blocks.values() for sentence in include_lint.list_block_faults(block)]
    for script in scripts:
        faults += script_lint.find_header_differences(
            script, script.source, script.path
        ) + include_lint.list_include_faults(script)
    return faults + include_lint.list_unused_blocks(scripts)


def run_luacheck() -> int:
    """Run luacheck on the complete scripts, and return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "rqtui", "script", "--all", folder], check=True)
        command = ["luacheck", "-q", "--config", str(ROOT / ".luacheckrc"), "."]
        return subprocess.run(command, cwd=folder, check=False).returncode


def main(arguments: list[str]) -> int:
    """Print the mistakes in the Lua scripts, run luacheck if requested, and return the exit code."""
    try:
        faults = list_script_faults()
    except ScriptError as error:  # a header or an include line that cannot be read
        faults = [str(error)]
    print("\n".join(faults) or "Every script fits its header and its blocks.")
    return int(bool(faults)) or (run_luacheck() if "--luacheck" in arguments else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
