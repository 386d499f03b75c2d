#!/bin/sh
# The browser tests drive Debian's Chromium. Installs it where that is possible, else says how; never fails the run.
set -u
find_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
find_chromium >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Chromium for the browser tests ..."
    apt-get update -qq && apt-get install -y -qq chromium >/dev/null
fi
find_chromium >/dev/null || cat <<'TXT'
No Chromium found: the browser tests will be skipped. To run them, install one and repeat `make test`:
  Debian, Ubuntu:  sudo apt-get install chromium
  macOS:           brew install --cask chromium
or set CHROMIUM=/path/to/chromium.
TXT
exit 0
