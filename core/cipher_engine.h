// SPDX-License-Identifier: GPL-3.0-or-later
//
// CipherEngine and CipherSession: how the data path asks for bytes to be ciphered. core/ owns the
// interface; engines/ implements it and core/ never knows which library or device is behind it.
//
// What a sector is ciphered with (LUKS1 and LUKS2, single segment, iv_tweak 0): AES under the
// volume key, with an IV made from the sector's counter. The counter counts 512-byte units
// whatever the sector size: sector n of 4096 bytes has counter 8 n (dm-crypt without
// iv_large_sectors). IVs as in Linux drivers/md/dm-crypt.c:
//   plain         counter mod 2^32, little endian, zero padded to 16 bytes
//   plain64       counter, 64-bit little endian, zero padded
//   essiv_sha256  AES-256-ECB under SHA-256(volume key) of the plain64 block
// For XTS the volume key is data key || tweak key and the IV is the tweak's input (IEEE 1619).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/result.h"
#include "core/secret.h"

namespace cryptimg {

enum class CipherMode : std::uint8_t { aes_xts, aes_cbc };
enum class IvMode : std::uint8_t { plain, plain64, essiv_sha256 };
enum class Direction : std::uint8_t { encrypt, decrypt };

inline constexpr std::uint32_t kIvUnitBytes = 512;

struct CipherSpec {
  CipherMode mode = CipherMode::aes_xts;
  IvMode iv = IvMode::plain64;
  std::uint32_t key_size_bytes = 64;       // the volume key: XTS 32 or 64, CBC 16, 24 or 32
  std::uint32_t sector_size_bytes = 4096;  // 512, 1024, 2048 or 4096

  friend bool operator==(const CipherSpec&, const CipherSpec&) = default;
};

// The specification as LUKS writes it ("aes-xts-plain64"), and back. parse_cipher_name fills mode
// and iv only; `unsupported`, naming what was found, for every combination not served:
// aes-xts-{plain,plain64}, aes-cbc-{plain,plain64,essiv:sha256} are.
std::string cipher_name(const CipherSpec& spec);
Result<CipherSpec> parse_cipher_name(std::string_view name);
// Checks key and sector size against the mode. unsupported, naming the value, where they do not
// fit.
Status check_spec(const CipherSpec& spec);

// What an engine is good at; the policy that follows from it is the pipeline's.
struct EngineLimits {
  std::size_t alignment_bytes = 1;   // of source and target
  std::size_t max_bytes = SIZE_MAX;  // of one transform call
};

// What an engine has done on a device or driver outside this process; all zeros for engines on the
// CPU. Since the engine was made, over all its sessions.
struct DriverCounters {
  std::uint64_t operations = 0;      // of the driver
  std::uint64_t bytes = 0;           // ciphered by them
  std::uint64_t software_bytes = 0;  // ciphered on the CPU instead, for whatever reason
  std::uint64_t fallbacks = 0;       // pieces that the driver failed at, redone on the CPU
  std::uint64_t quarantines = 0;     // 1 once the driver was given up
};

// The ciphering state of one thread: key schedule and scratch. Used by one thread at a time.
class CipherSession {
 public:
  virtual ~CipherSession() = default;

  // Transforms whole sectors, the first being number `first_sector` (in sectors of the spec's
  // size, counted from the start of the data segment), from `source` to `target`.
  // REQUIRES: equal sizes, a positive multiple of the sector size, at most limits().max_bytes;
  // source and target equal or disjoint; alignment as in limits().
  // The result depends on key, sector numbers and bytes only, never on how an extent was cut.
  // On failure target is zeroed and nothing of it may be served. Does not allocate on success.
  virtual Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                           MutableBytes target) noexcept = 0;

  // For sessions whose work is done elsewhere than on the calling thread's core, so that it can do
  // other work meanwhile: begin() starts what transform() would do, and finish() waits for its end
  // and returns what transform() would have. False: not offered, or not now; nothing was done.
  // REQUIRES: begin as transform; after true, finish() before anything else on this session, and
  // source and target are the session's until it has returned.
  virtual bool begin(Direction /*direction*/, std::uint64_t /*first_sector*/, Bytes /*source*/,
                     MutableBytes /*target*/) noexcept {
    return false;
  }
  virtual Status finish() noexcept { return fail(Errc::invalid_argument); }
};

// A way of ciphering. Immutable, shared, safe to call from any thread.
class CipherEngine {
 public:
  virtual ~CipherEngine() = default;

  // Short name as --engine takes it: "openssl", "vaes", "afalg:cbc-aes-omap".
  [[nodiscard]] virtual std::string_view name() const = 0;
  // One phrase for people: library and version, or driver.
  [[nodiscard]] virtual std::string description() const = 0;
  // Whether new_session would serve `spec` on this machine; else unsupported (never, here) or
  // unavailable (not on this machine), with the reason.
  [[nodiscard]] virtual Status supports(const CipherSpec& spec) const = 0;
  [[nodiscard]] virtual EngineLimits limits() const { return {}; }
  // Whether a device or driver outside this process does the work, as far as it can.
  [[nodiscard]] virtual bool has_driver() const { return false; }
  [[nodiscard]] virtual DriverCounters driver_counters() const noexcept { return {}; }
  // A session for one thread, ready to transform. The key is only read during the call.
  // REQUIRES: key.size() == spec.key_size_bytes.
  [[nodiscard]] virtual Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const = 0;
};

}  // namespace cryptimg
