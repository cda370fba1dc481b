"""Makes a picture of 1280 x 720 as a screen has them, flat areas and fine text, under many names."""

import os
import random
import struct
import sys
import zlib

random.seed(1)
width, height = 1280, 720
rows = []
for y in range(height):
    row = bytearray(b"\xf6\xf7\xf9" * width)
    if y % 24 < 12:  # lines of "text"
        for x in range(80, 1200):
            if random.random() < 0.35:
                row[3 * x : 3 * x + 3] = bytes((random.randrange(90),) * 3)
    rows.append(b"\0" + bytes(row))


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
picture = (
    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
)
folder, count = sys.argv[1], int(sys.argv[2])
with open(f"{folder}/1.png", "wb") as file:
    file.write(picture)
for number in range(2, count + 1):
    os.link(f"{folder}/1.png", f"{folder}/{number}.png")
