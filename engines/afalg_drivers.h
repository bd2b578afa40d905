// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which AES drivers the kernel has, as /proc/crypto tells it, and which of them are hardware. Pure
// functions of a text, any thread; the format is that of Linux crypto/proc.c.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cipher_engine.h"

namespace cryptimg {

// The modes of AES that a driver may offer and that something can be made of.
enum class AlgMode : std::uint8_t { ecb, cbc, xts };

struct AlgDriver {
  std::string name;  // as AF_ALG binds it: "cbc-aes-omap", "virtio_crypto_aes_cbc"
  AlgMode mode = AlgMode::cbc;
  int priority = 0;  // the kernel's own preference among drivers of a mode
  bool is_hardware = false;

  friend bool operator==(const AlgDriver&, const AlgDriver&) = default;
};

// "ecb(aes)", as the kernel names the mode.
std::string_view alg_name(AlgMode mode);

// The AES drivers of `proc_crypto` that AF_ALG would bind: skciphers (on older kernels ablkciphers)
// of the three modes, not internal, whose self-test passed. In the order of the text, each name
// once. What cannot be read is left out.
std::vector<AlgDriver> parse_proc_crypto(std::string_view proc_crypto);

// Whether a driver of this name, when it is asynchronous too, is hardware: no instruction set of
// the CPU, no code, no wrapper or template of the kernel ("cryptd(...)", "xts(ecb-aes-omap)").
bool is_hardware_name(std::string_view driver);

// The driver called `name`: as listed in `proc_crypto`, or where it is not listed a template that
// the kernel makes when it is asked for ("cbc(aes-generic)"). Nothing where the mode cannot be
// told.
std::optional<AlgDriver> find_driver(std::string_view proc_crypto, std::string_view name);

// The best hardware driver for ciphers of `mode`, by what can be made of it (see offload_form in
// block_algebra.h), then by priority; nothing where there is none of use.
std::optional<AlgDriver> best_hardware(const std::vector<AlgDriver>& drivers, CipherMode mode);

}  // namespace cryptimg
