"""Makes docs/demo.png, the picture in the README: the report page that `make demo` left, in a browser.

    python docs/make_picture.py [demo-run/report.html]

Needs Chromium (or Google Chrome) on PATH; pillow, to make the file small, is used when it is there.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1160, 1100
TIMEOUT_S = 120
TARGET = Path(__file__).with_name("demo.png")


def main() -> None:
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-run/report.html").absolute()
    if not page.is_file():
        sys.exit(f"{page} is not there; run `make demo`, or name the report page")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser on PATH; install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run([
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars",
            f"--user-data-dir={profile}", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={TARGET}", page.as_uri()],
            check=True, timeout=TIMEOUT_S, capture_output=True)
    _shrink(TARGET)
    print(f"{TARGET}: {TARGET.stat().st_size // 1024} KiB")


def _shrink(path: Path) -> None:
    """Few colours are enough for such a page, and a repository keeps each version of a picture."""
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(128).save(path, optimize=True)


if __name__ == "__main__":
    main()
