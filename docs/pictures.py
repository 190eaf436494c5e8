"""Make the README's pictures of what `make screenshots` took: the first screen, in few colours."""

import sys
from pathlib import Path

from PIL import Image

PICTURES = {
    "console-overview.png": "overview-light-1280.png",
    "console-deliveries.png": "deliveries-dark-1280.png",
    "console-delivery.png": "delivery-failing-light-1280.png",
}
SIZE = (1280, 800)
TARGET = Path(__file__).parent / "img"


def main(taken: Path) -> None:
    """Read the pictures of a folder."""
    TARGET.mkdir(exist_ok=True)
    for name, source in PICTURES.items():
        with Image.open(taken / source) as picture:
            first_screen = picture.convert("RGB").crop((0, 0, *SIZE))
            # By the median cut, the default, the few pixels of a badge would have another's colour.
            small = first_screen.quantize(method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        small.save(TARGET / name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
