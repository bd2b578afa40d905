// SPDX-License-Identifier: GPL-3.0-or-later
//
// Container: a LUKS1 or LUKS2 container opened for serving. Files are opened and locked once, and
// libcryptsetup reads the header through those same descriptors, so that header and data cannot
// differ. What the header says is checked against itself and against the device before anything is
// served; see SECURITY.md for what an edited header can and cannot do.
//
// No device-mapper, no root. Not thread-safe: one thread opens, unlocks and takes the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/block_device.h"
#include "core/cipher_engine.h"
#include "core/result.h"
#include "core/secret.h"
#include "core/unique_fd.h"

namespace cryptimg {

struct KeyslotInfo {
  int number = 0;
  std::string priority;  // "normal", "prefer", "ignore"; LUKS1: "normal"
  std::uint32_t key_size_bytes = 0;
  std::string area_cipher;                // what the keyslot area is enciphered with
  std::uint32_t area_key_size_bytes = 0;  // of the key derived for that
  std::string kdf;                        // "argon2id", "argon2i", "pbkdf2"
  std::string kdf_hash;                   // pbkdf2 only
  std::uint32_t iterations = 0;
  std::uint32_t memory_kib = 0;         // argon2 only
  std::uint32_t parallel = 0;           // argon2 only
  std::uint32_t digest_iterations = 0;  // of the pbkdf2 that checks the volume key
  bool assigned_to_segment = true;
};

// What a header says. Filled for every LUKS header that loads, served or not.
struct ContainerInfo {
  std::string type;  // "LUKS1" or "LUKS2"
  std::string uuid;
  std::string label;      // LUKS2
  std::string subsystem;  // LUKS2
  std::string cipher;     // as written: "aes-xts-plain64"
  std::uint32_t key_size_bytes = 0;
  std::uint32_t sector_size_bytes = 0;
  std::uint64_t data_offset_bytes = 0;    // in the data file
  std::uint64_t image_size_bytes = 0;     // of the decrypted image, 0 where it cannot be told
  std::uint64_t metadata_size_bytes = 0;  // one copy of the LUKS2 header; 0 for LUKS1
  bool detached_header = false;
  std::vector<KeyslotInfo> keyslots;
  std::vector<std::string> requirements;  // LUKS2 requirements, as written
  // What the user should see to although it is served (a damaged copy of the header), or empty.
  std::string warning;
  // Empty where `mount` would serve it, else the sentence it would refuse with.
  std::string refusal;
};

struct OpenOptions {
  std::string container;              // file or block device with the data
  std::optional<std::string> header;  // detached header
  bool read_only = false;
};

// Whether unlocking may cost what the header says (core/kdf_limits.h).
enum class KdfBounds : std::uint8_t {
  enforce,  // keyslots that ask for more than this machine has, or for absurd work, are not tried
  lift,
};

class Container {
 public:
  // Opens, locks and checks. Read-write takes the container for itself alone (busy where any other
  // mount, or a loop device, holds it; a block device is opened with O_EXCL); read-only shares it
  // with other readers. Never changes a byte of either file, not even to repair a header.
  // Failures: not_found, permission, busy, corrupt (no LUKS header, or one that contradicts itself
  // or the device's size), unsupported (naming what was found; also neither file nor block device).
  // libcryptsetup keeps descriptors of its own open until this is destroyed. Read-write refuses a
  // container shorter than its header says, naming both sizes; read-only serves it (reads past the
  // end: io).
  static Result<Container> open(const OpenOptions& options);

  // What the header of a container says, without locking anything. For `info`.
  static Result<ContainerInfo> inspect(const OpenOptions& options);

  // The header alone, for the key of a container that is mounted: takes no lock, and take_device()
  // must not be called. Fails as a read-only open().
  static Result<Container> open_header(const OpenOptions& options);

  Container(Container&&) noexcept;
  Container& operator=(Container&&) noexcept;
  ~Container();

  [[nodiscard]] const ContainerInfo& info() const;
  [[nodiscard]] const CipherSpec& spec() const;

  // The volume key, by passphrase or key file content, from the given or any keyslot. wrong_key;
  // not_found where the explicit keyslot is not in use; out_of_memory, naming the KiB the KDF
  // wants; unsupported where no keyslot opens and one was passed over for the work it asks for, or
  // for its cipher; corrupt where the digest would accept any key. A
  // named keyslot may be one of priority "ignore"; unbound keyslots are never used. Wipes
  // everything it derived.
  Result<Secret> unlock(const Secret& passphrase, std::optional<int> keyslot,
                        KdfBounds bounds = KdfBounds::enforce);

  // The data segment. Call once, after unlock; takes the data descriptor, and the lock with it, out
  // of this Container. Fails only with BackingIo::direct, as make_direct_device() does.
  Result<std::unique_ptr<BlockDevice>> take_device(BackingIo io = BackingIo::automatic);

 private:
  struct Impl;
  explicit Container(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// libcryptsetup's limits for argon2.
inline constexpr std::uint32_t kMaxPbkdfMemoryKib = 4U << 20;
inline constexpr std::uint32_t kMaxPbkdfParallel = 4;

struct CreateOptions {
  std::string container;
  std::optional<std::string> header;
  std::uint64_t size_bytes = 0;  // of the decrypted image; rounded up to whole sectors. 0 on a
                                 // block device: all that the header leaves
  std::string type = "luks2";    // or "luks1"
  std::optional<std::string> cipher;
  std::optional<std::uint32_t> key_size_bits;
  std::optional<std::uint32_t> sector_size_bytes;
  std::optional<std::string> pbkdf;
  std::optional<std::uint32_t> pbkdf_memory_kib;
  std::optional<std::uint32_t> pbkdf_parallel;
  std::optional<std::uint32_t> pbkdf_force_iterations;
  std::optional<std::uint32_t> iter_time_ms;
  std::optional<std::string> label;
  std::optional<std::string> uuid;
  bool preallocate = false;
  bool force = false;
};

// What check_create_options resolved the defaults to.
struct CreatePlan {
  CipherSpec spec;
  std::string pbkdf;
  std::uint64_t image_size_bytes = 0;
  bool size_was_rounded = false;
};

// Resolves defaults (they follow type and cipher) and refuses every illegal explicit value with
// invalid_argument. Touches no file. `is_device` lets size_bytes be 0.
Result<CreatePlan> check_create_options(const CreateOptions& options, bool is_device);

// Creates a container with one keyslot for `passphrase`. The file appears complete or not at all
// (O_TMPFILE or a temporary name, then link or rename), mode 0600, synced with its directory.
// Failures: invalid_argument, exists (without force), busy (in use by a mount or loop device, also
// with force), no_space (checked before anything is written), out_of_memory (KDF), io.
// A block device is taken whole and the header written in place, its first 4 KiB last; it counts as
// existing unless its first and last MiB read as zeros, and with force both are overwritten.
// `warnings` receives sentences the user should see (not that the size was rounded: the plan says).
Status create_container(const CreateOptions& options, const Secret& passphrase,
                        std::vector<std::string>& warnings);

}  // namespace cryptimg
