#!/usr/bin/env bash
# Installs the tools that Spate is compared with, each into its own virtual environment below .env/, at the versions of
# requirements/.
#   bench/peers/install.sh [TOOL...]     (default: all; needs Python 3.12 and PyPI; about 8 GB on disk, 6 of them GuideLLM's with PyTorch)
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-python3.12}

pip() { "$env/bin/python" -m pip install --quiet --no-cache-dir --retries 5 --timeout 60 "$@"; }

[ $# -gt 0 ] || set -- aiperf guidellm vllm evalscope locust
for tool in "$@"; do
    [ -f "requirements/$tool.txt" ] || { echo "$tool: there is no requirements/$tool.txt" >&2; exit 2; }
    env=.env/$tool
    if cmp -s "requirements/$tool.txt" "$env/installed.txt"; then
        echo "$tool is there."
        continue
    fi
    echo "Installing $tool"
    "$python" -m venv --clear "$env"
    # The pins are the versions that pip itself chose: nothing is left to resolve, and vLLM's package would not resolve.
    pip --no-deps --requirement "requirements/$tool.txt"
    cp "requirements/$tool.txt" "$env/installed.txt"
done
