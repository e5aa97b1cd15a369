"""Figures by the language's rule: 32-bit floats as given, double precision, eight lanes, six decimals."""
import math
import struct


def to_float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def to_vector(values):
    return [to_float32(value) for value in values]


def round6(value):
    """rint(x * 10**6) / 10**6, never -0. Python's round() is rint: ties to even."""
    return round(value * 1e6) / 1e6 + 0.0


def dot(a, b):
    lanes = [0.0] * 8
    for i, (x, y) in enumerate(zip(a, b)):
        lanes[i % 8] += x * y
    while len(lanes) > 1:
        lanes = [lanes[i] + lanes[i + 1] for i in range(0, len(lanes), 2)]
    return lanes[0]


def cosine(a, b):
    if a is None or b is None:
        return None
    return round6(dot(a, b) / (math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))))
