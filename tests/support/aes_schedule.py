# SPDX-License-Identifier: GPL-3.0-or-later
#
# AES key schedules (FIPS 197, section 5.2), written for being searched for: slow, obvious, and
# independent of what cryptimg uses.


def _xtime(byte):
    return ((byte << 1) ^ 0x11B if byte & 0x80 else byte << 1) & 0xFF


def _multiply(a, b):
    result = 0
    while b:
        if b & 1:
            result ^= a
        a = _xtime(a)
        b >>= 1
    return result


def _sbox():
    box = []
    for value in range(256):
        inverse = next((i for i in range(256) if _multiply(value, i) == 1), 0)
        result = 0x63
        for turn in range(5):
            result ^= ((inverse << turn) | (inverse >> (8 - turn))) & 0xFF
        box.append(result)
    return box


_SBOX = _sbox()


def round_keys(key):
    """The round keys, 16 bytes each, that encryption with `key` (16, 24 or 32 bytes) adds."""
    words = [key[i : i + 4] for i in range(0, len(key), 4)]
    key_words = len(words)
    rcon = 1
    for i in range(key_words, 4 * (key_words + 7)):
        word = words[-1]
        if i % key_words == 0:
            word = bytes(_SBOX[b] for b in word[1:] + word[:1])
            word = bytes([word[0] ^ rcon]) + word[1:]
            rcon = _xtime(rcon)
        elif key_words == 8 and i % key_words == 4:
            word = bytes(_SBOX[b] for b in word)
        words.append(bytes(a ^ b for a, b in zip(word, words[i - key_words])))
    return [b"".join(words[i : i + 4]) for i in range(0, len(words), 4)]


def inverse_mix_columns(block):
    """What the equivalent inverse cipher (section 5.3.5) makes of a round key."""
    result = bytearray()
    for column in range(0, 16, 4):
        for row in range(4):
            byte = 0
            for i, factor in enumerate((0x0E, 0x0B, 0x0D, 0x09)):
                byte ^= _multiply(block[column + (row + i) % 4], factor)
            result.append(byte)
    return bytes(result)


def searched_forms(key):
    """Parts of the schedules of `key` that are not the key itself, by name, in the byte orders that
    implementations use."""
    keys = round_keys(key)
    forms = {}
    for number in (len(key) // 16 + 1, len(keys) - 2):
        for kind, block in (("encrypt", keys[number]), ("decrypt", inverse_mix_columns(keys[number]))):
            forms[f"{kind}{number}"] = block
            swapped = b"".join(block[i : i + 4][::-1] for i in range(0, 16, 4))
            forms[f"{kind}{number}-swapped"] = swapped
    return forms
