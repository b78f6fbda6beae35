"""The parts alone: LEB128, RLE, CRC-32C, LZ4, bit shuffling, compression."""

from __future__ import annotations

import random
import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalti.errors import CorruptFileError, SchemaError
from smalti.kudu._kernels import bitshuffle, leb128, lists, lz4, rle_bits, rle_ints, strings
from smalti.kudu.checksum import crc32c, seal, unseal
from smalti.kudu.compression import compress_block, decompress_block
from smalti.kudu.spec import Compression
from tests.kudu.oracle import bit_planes, rle_encode
from tests.kudu.runs import decode_bitmap, decode_counts, encode_bitmap, encode_counts


class TestLeb128:
    @pytest.mark.parametrize(
        ("value", "data"),
        [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (16384, "808001"), (2**32 - 1, "ffffffff0f")],
    )
    def test_known_numbers(self, value: int, data: str) -> None:
        assert leb128.encode(value).hex() == data
        assert leb128.decode32(bytes.fromhex(data)) == (value, len(data) // 2)

    @given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
    def test_round_trip_in_context(self, value: int, before: bytes) -> None:
        data = before + leb128.encode(value) + b"\xff"
        assert leb128.decode64(data, len(before)) == (value, len(data) - 1)

    @pytest.mark.parametrize(
        ("data", "bits"),
        [("", 32), ("80", 32), ("8000", 32), ("ffffffff1f", 32), ("808080808001", 32), ("80" * 10 + "01", 64)],
    )
    def test_refused(self, data: str, bits: int) -> None:
        with pytest.raises(CorruptFileError, match="varint"):
            (leb128.decode32 if bits == 32 else leb128.decode64)(bytes.fromhex(data))

    @pytest.mark.parametrize("value", [-1, 2**64])
    def test_out_of_range(self, value: int) -> None:
        with pytest.raises(OverflowError):
            leb128.encode(value)


# Long stretches of few values make all kinds of runs, on and off the groups of eight.
stretches = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=30).map(
    lambda runs: [value for value, times in runs for _ in range(times)]
)


class TestRle:
    @given(stretches)
    def test_counts_are_kudus(self, values: list[int]) -> None:
        data = encode_counts(values)
        assert data == rle_encode(values, 16)
        assert decode_counts(data, len(values)) == values

    @given(stretches, st.integers(0, 9))
    def test_bits_are_kudus_wherever_they_start(self, values: list[int], start: int) -> None:
        bits = [value & 1 for value in values]
        packed = sum(bit << (i + start) for i, bit in enumerate(bits))
        bitmap = packed.to_bytes((len(bits) + start) // 8 + 1, "little")
        data = rle_bits.encode(bitmap, start, len(bits))
        assert data == rle_encode(bits, 1)
        assert decode_bitmap(data, len(bits)) == [bool(bit) for bit in bits]

    @given(stretches, st.sampled_from([1, 2, 4, 8]))
    def test_integers_of_all_widths(self, values: list[int], width: int) -> None:
        top = 256**width - 1
        values = [top - value for value in values]
        packed = b"".join(value.to_bytes(width, "little") for value in values)
        data = rle_ints.encode(packed, width)
        assert data == rle_encode(values, 8 * width)
        assert rle_ints.decode(data, width, len(values)) == packed

    @pytest.mark.parametrize("count", [503, 504, 505, 512, 1009])
    def test_literal_runs_are_cut_at_504(self, count: int) -> None:
        values = [i % 2 for i in range(count)]
        assert encode_counts(values) == rle_encode(values, 16)
        assert encode_bitmap(values) == rle_encode(values, 1)

    @pytest.mark.parametrize(
        ("values", "data"),
        [
            ([2] + [1] * 8, "05 0200" + "0100" * 8),
            ([10], "020a00"),
            ([1] * 64, "8001 0100"),
            ([1] * 8192, "808001 0100"),
            ([1] * 65535, "feff07 0100"),
            ([65535], "02ffff"),
            ([], ""),
        ],
    )
    def test_runs_that_kudu_writes(self, values: list[int], data: str) -> None:
        assert encode_counts(values) == bytes.fromhex(data)
        assert decode_counts(bytes.fromhex(data), len(values)) == values

    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 65535), st.integers(1, 20)), min_size=1, max_size=12))
    def test_any_run_sequence_is_read(self, runs: list[tuple[bool, int, int]]) -> None:
        data, values = b"", []
        for literal, value, times in runs:
            if literal:  # whole groups, as all but the last run must be
                values += [(value + i) % 65536 for i in range(8)]
                data += b"\x03" + struct.pack("<8H", *values[-8:])
            else:
                values += [value] * times
                data += leb128.encode(times << 1) + struct.pack("<H", value)
        assert decode_counts(data, len(values)) == values

    def test_header_longer_than_it_need_be_is_read(self) -> None:
        assert decode_counts(bytes.fromhex("8200 0700"), 1) == [7]

    @pytest.mark.parametrize(
        ("data", "count", "reason"),
        [
            ("03" + "0100" * 8, 7, "another number"),  # a last group filled up to eight
            ("020a00", 2, "another number"),
            ("020a00020a00", 1, "go on after"),
            ("040a00", 1, "another number"),
            ("020a", 1, "ends early"),
            ("03", 1, "without its values"),
            ("030a", 1, "inside a value"),
            ("000a00", 1, "no values"),
            ("01", 1, "no values"),
            ("80", 1, "cut off"),
            ("ffffffffff01", 1, "longer than 5"),
            ("feffffff0f0a00", 1, "31 bits"),
            ("", 1, "another number"),
            ("020a00", 0, "go on after"),
        ],
    )
    def test_counts_refused(self, data: str, count: int, reason: str) -> None:
        with pytest.raises(CorruptFileError, match=reason):
            decode_counts(bytes.fromhex(data), count)

    def test_bits_behind_the_last_are_ignored_as_kudu_does(self) -> None:
        assert decode_bitmap(bytes.fromhex("03ff 0800"), 3) == [True] * 3
        assert decode_bitmap(bytes.fromhex("2001"), 3) == [True] * 3

    @pytest.mark.parametrize(
        ("data", "count", "reason"),
        [("037b", 9, "ends early"), ("", 1, "ends early"), ("0402", 2, "no bit"), ("04", 2, "ends early")],
    )
    def test_bits_refused(self, data: str, count: int, reason: str) -> None:
        with pytest.raises(CorruptFileError, match=reason):
            decode_bitmap(bytes.fromhex(data), count)

    def test_whole_streams_have_no_rest(self) -> None:
        assert rle_bits.decode(bytes.fromhex("03ff"), 5, whole=True)[1] == 5
        for data in ("0a010401", "0c01"):
            with pytest.raises(CorruptFileError, match="go on after"):
                rle_bits.decode(bytes.fromhex(data), 5, whole=True)

    def test_words_that_do_not_start_on_a_word(self) -> None:
        packed = struct.pack("<x9Q", *[1] * 8, 2)
        data = rle_ints.encode(memoryview(packed)[1:], 8)
        assert data == rle_encode([1] * 8 + [2], 64)
        shifted = bitshuffle.shuffle(memoryview(packed)[1:65], 8)
        assert shifted == bit_planes([1] * 8, 8)

    def test_count_beyond_16_bits(self) -> None:
        for count in (65536, -1):
            with pytest.raises(SchemaError, match=f"array 1 .*{count}"):
                lists.narrow_lengths(struct.pack("<2i", 1, count))
        assert lists.narrow_lengths(struct.pack("<2i", 0, 65535)) == b"\0\0\xff\xff"

    @given(stretches, st.integers(1, 60))
    def test_full_point_is_where_the_bytes_pass_the_limit(self, values: list[int], limit: int) -> None:
        """An open run counts nothing, so the bytes of a prefix are those of all its closed runs."""
        packed = struct.pack(f"<{len(values)}H", *values)
        point = rle_ints.full_at(packed, 2, 0, limit)
        whole = len(encode_counts(values))
        if point < 0:
            # Only the tail that is not yet written may lie above the limit: one run, or one group.
            assert whole <= limit + 5 + 8 * 2 + 1
        else:
            assert len(encode_counts(values[: point + 1])) > limit


def test_crc32c_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283 != zlib.crc32(b"123456789")
    assert crc32c(b"") == 0
    assert crc32c(memoryview(b"x123456789")[1:]) == 0xE3069283


def test_sealed_bytes() -> None:
    sealed = seal(b"123456789")
    assert sealed == b"123456789\x83\x92\x06\xe3"
    assert bytes(unseal(memoryview(sealed))) == b"123456789"
    for i in range(len(sealed)):
        broken = bytearray(sealed)
        broken[i] ^= 0x10
        with pytest.raises(CorruptFileError, match="checksum"):
            unseal(memoryview(bytes(broken)))
    with pytest.raises(CorruptFileError, match="checksum"):
        unseal(memoryview(b"abc"))


payloads = st.one_of(
    st.binary(max_size=300),
    st.tuples(st.binary(min_size=1, max_size=6), st.integers(1, 3000)).map(lambda t: t[0] * t[1]),
    st.tuples(st.binary(max_size=40), st.integers(0, 5000), st.binary(max_size=40)).map(
        lambda t: t[0] + bytes(t[1]) + t[2]
    ),
)


class TestLz4:
    @given(payloads)
    def test_reads_what_the_library_writes(self, data: bytes) -> None:
        packed = pa.Codec("lz4_raw").compress(data, asbytes=True)
        assert lz4.decompress(packed, len(data)) == data

    @given(payloads, st.integers(-5, 5).filter(bool))
    def test_any_other_size_is_refused(self, data: bytes, more: int) -> None:
        packed = pa.Codec("lz4_raw").compress(data, asbytes=True)
        if len(data) + more >= 0:
            with pytest.raises(CorruptFileError):
                lz4.decompress(packed, len(data) + more)

    @given(st.binary(max_size=60), st.integers(0, 400))
    def test_noise_is_refused_or_read_as_the_library_does(self, packed: bytes, size: int) -> None:
        try:
            data = lz4.decompress(packed, size)
        except CorruptFileError:
            return
        assert pa.Codec("lz4_raw").decompress(packed, size, asbytes=True) == data


class TestBitshuffle:
    @given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 12), st.randoms(use_true_random=False))
    def test_planes_are_those_of_the_oracle(self, width: int, groups: int, rng: random.Random) -> None:
        values = [rng.getrandbits(8 * width) >> rng.randrange(8 * width) for _ in range(8 * groups)]
        packed = b"".join(value.to_bytes(width, "little") for value in values)
        assert bitshuffle.shuffle(packed, width) == bit_planes(values, width)

    @pytest.mark.parametrize("width", [1, 2, 4, 8])
    def test_chunks(self, width: int) -> None:
        """8192 bytes a chunk, the last one shorter."""
        rng = random.Random(width)
        values = [rng.getrandbits(8 * width) for _ in range(8192 // width * 2 + 16)]
        packed = b"".join(value.to_bytes(width, "little") for value in values)
        step = 8192 // width
        planes = [bit_planes(values[i : i + step], width) for i in range(0, len(values), step)]
        assert bitshuffle.shuffle(packed, width) == b"".join(planes)
        chunks = [pa.Codec("lz4_raw").compress(chunk, asbytes=True) for chunk in planes]
        data = b"".join(struct.pack(">I", len(chunk)) + chunk for chunk in chunks)
        assert bitshuffle.unshuffle(data, width, len(values)) == packed
        with pytest.raises(CorruptFileError, match="after the last"):
            bitshuffle.unshuffle(data + b"\0", width, len(values))
        with pytest.raises(CorruptFileError):
            bitshuffle.unshuffle(data, width, len(values) - 8)

    def test_claim_beyond_lz4s_reach(self) -> None:
        with pytest.raises(CorruptFileError, match="cannot hold"):
            bitshuffle.unshuffle(bytes(100), 8, 1 << 40)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.SNAPPY, Compression.ZLIB])
class TestCompression:
    @given(data=payloads)
    def test_round_trip(self, compression: Compression, data: bytes) -> None:
        packed = compress_block(data, compression)
        assert packed[:4] == struct.pack("<I", len(data))
        assert bytes(decompress_block(memoryview(packed), compression)) == data

    def test_little_gain_is_stored_raw(self, compression: Compression) -> None:
        data = random.Random(1).randbytes(1000)
        for zeros, raw in ((0, True), (60, True), (400, False)):
            block = data + bytes(zeros)
            packed = compress_block(block, compression)
            assert (packed[4:] == block) is raw
            assert raw or len(packed) - 4 <= 0.9 * len(block)

    @pytest.mark.parametrize("more", [-1, 1, 1000])
    def test_another_size_is_refused(self, compression: Compression, more: int) -> None:
        packed = compress_block(bytes(5000), compression)
        with pytest.raises(CorruptFileError):
            decompress_block(memoryview(struct.pack("<I", 5000 + more) + packed[4:]), compression)

    def test_too_large_is_refused_both_ways(self, compression: Compression) -> None:
        with pytest.raises(SchemaError, match="too large"):
            compress_block(bytes((16 << 20) + 1), compression)
        with pytest.raises(CorruptFileError, match="too large"):
            decompress_block(memoryview(struct.pack("<I", (16 << 20) + 1) + b"xyz"), compression)
        with pytest.raises(CorruptFileError, match="no room"):
            decompress_block(memoryview(b"\0\0\0"), compression)


class TestStringOffsets:
    def test_group_varints_that_kudu_writes(self) -> None:
        offsets = struct.pack("<6i", 0, 2, 2, 5, 7, 8)
        packed = strings.pack_offsets(offsets)
        assert packed.hex(" ") == "00 0c 0e 0e 11 00 13 00 00 00"
        block = bytes(20) + packed
        assert strings.unpack_offsets(block, 20, 5) == offsets

    @given(st.lists(st.integers(0, 100_000), max_size=30))
    def test_round_trip(self, lengths: list[int]) -> None:
        ends = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        offsets = struct.pack(f"<{len(ends)}i", *ends)
        block = bytes(12 + ends[-1]) + strings.pack_offsets(offsets)
        assert strings.unpack_offsets(block, 12 + ends[-1], len(lengths)) == offsets

    @pytest.mark.parametrize(
        ("packed", "count", "reason"),
        [
            ("00 0d 0e 0e 11", 4, "behind the header"),
            ("00 0c 0e 0d 11", 4, "before the one ahead"),
            ("00 0c 0e 0e 21", 4, "behind the values"),
            ("00 0c 0e 0e 11 00", 4, "after the last"),
            ("00 0c 0e 0e", 4, "ends early"),
            ("40 0c 0e 0e 11", 4, "behind the header"),
        ],
    )
    def test_refused(self, packed: str, count: int, reason: str) -> None:
        with pytest.raises(CorruptFileError, match=reason):
            strings.unpack_offsets(bytes(20) + bytes.fromhex(packed), 20, count)

    def test_code_without_a_word(self) -> None:
        offsets = struct.pack("<3i", 0, 1, 3)
        assert strings.look_up(offsets, b"abb", b"\1\0\1", 1) == (struct.pack("<4i", 0, 2, 3, 5), b"bbabb")
        empty = struct.pack("<2i", 0, 0)  # words that are all empty have no address, which nothing may be copied from
        assert strings.look_up(empty, b"", b"\0\0", 1) == (struct.pack("<3i", 0, 0, 0), b"")
        with pytest.raises(CorruptFileError, match="no word"):
            strings.look_up(offsets, b"abb", b"\1\2", 1)


@given(st.lists(st.booleans(), max_size=80), st.integers(0, 20))
def test_packed_bits(bits: list[bool], start: int) -> None:
    start = min(start, len(bits))
    whole = sum(bit << i for i, bit in enumerate(bits)).to_bytes(len(bits) // 8 + 1, "little")
    wanted = sum(bit << i for i, bit in enumerate(bits[start:])).to_bytes((len(bits) - start + 7) // 8, "little")
    assert lists.pack_bits(whole, start, len(bits) - start) == wanted
