// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/fuzz/header_file.h"

#include <span>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cipher_engine.h"
#include "core/secret.h"

namespace cryptimg::fuzz {
namespace {

// So that a run stays a matter of milliseconds.
constexpr std::uint64_t kCheapWork = 4096;

bool is_cheap(const KeyslotInfo& slot) {
  return slot.iterations <= kCheapWork && slot.memory_kib <= 1024 && slot.parallel <= 4 &&
         std::uint64_t{slot.iterations} * slot.memory_kib <= kCheapWork &&
         slot.digest_iterations <= kCheapWork;
}

}  // namespace

HeaderFile::HeaderFile() : fd_(::memfd_create("header", MFD_CLOEXEC)) {
  FUZZ_CHECK(fd_.valid());
  path_ = "/proc/self/fd/" + std::to_string(fd_.get());
}

void HeaderFile::write(const std::string& start, std::uint64_t size_bytes) {
  start_ = start.substr(0, size_bytes);
  size_bytes_ = size_bytes;
  FUZZ_CHECK(::ftruncate(fd_.get(), 0) == 0);
  FUZZ_CHECK(::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) == 0);
  FUZZ_CHECK(::pwrite(fd_.get(), start_.data(), start_.size(), 0) ==
             static_cast<ssize_t>(start_.size()));
}

bool HeaderFile::is_unchanged() const {
  struct stat status = {};
  std::string now(start_.size(), '\0');
  return ::fstat(fd_.get(), &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) == size_bytes_ &&
         ::pread(fd_.get(), now.data(), now.size(), 0) == static_cast<ssize_t>(now.size()) &&
         now == start_;
}

void HeaderFile::check_info(const ContainerInfo& info) const {
  for (const std::string& text : {info.type, info.uuid, info.label, info.subsystem, info.cipher,
                                  info.warning, info.refusal}) {
    FUZZ_CHECK(is_one_line(text));
  }
  for (const std::string& text : info.requirements) {
    FUZZ_CHECK(is_one_line(text));
  }
  for (const KeyslotInfo& slot : info.keyslots) {
    FUZZ_CHECK(is_one_line(slot.area_cipher + slot.kdf + slot.kdf_hash + slot.priority));
  }
  if (!info.refusal.empty()) {
    return;
  }
  auto spec = parse_cipher_name(info.cipher);
  FUZZ_CHECK(spec);
  spec->key_size_bytes = info.key_size_bytes;
  spec->sector_size_bytes = info.sector_size_bytes;
  FUZZ_CHECK(check_spec(*spec));
  FUZZ_CHECK(info.requirements.empty());
  FUZZ_CHECK(info.image_size_bytes > 0);
  FUZZ_CHECK(info.image_size_bytes % info.sector_size_bytes == 0);
  FUZZ_CHECK(info.data_offset_bytes % 512 == 0);
  FUZZ_CHECK(info.data_offset_bytes >= std::max<std::uint64_t>(1024, 2 * info.metadata_size_bytes));
  FUZZ_CHECK(info.data_offset_bytes <= size_bytes_);
  FUZZ_CHECK(info.image_size_bytes <= size_bytes_ - info.data_offset_bytes);
}

void HeaderFile::check_unlock(Container& container, Reach& reach) const {
  const auto& slots = container.info().keyslots;
  if (!std::all_of(slots.begin(), slots.end(), is_cheap)) {
    return;
  }
  reach.at("derived");
  const std::string passphrase = "not this one";
  const auto secret = Secret::copy_of(std::as_bytes(std::span(passphrase)));
  FUZZ_CHECK(secret);
  const auto key = container.unlock(*secret, std::nullopt);
  FUZZ_CHECK(!key);
  FUZZ_CHECK(is_one_line(key.error().message) && !key.error().message.empty());
}

void HeaderFile::open_and_check(Reach& reach) {
  const auto info = Container::inspect({path_, std::nullopt, true});
  auto container = Container::open({path_, std::nullopt, true});
  if (!info) {
    reach.at("no header");
    FUZZ_CHECK(is_one_line(info.error().message) && !info.error().message.empty());
    FUZZ_CHECK(!container);
  } else {
    check_info(*info);
    reach.at(info->refusal.empty() ? "served" : "refused");
    // Who would be served for writing is served for reading.
    FUZZ_CHECK(container || !info->refusal.empty());
  }
  if (container) {
    check_unlock(*container, reach);
  } else {
    FUZZ_CHECK(is_one_line(container.error().message) && !container.error().message.empty());
  }
  FUZZ_CHECK(is_unchanged());
}

}  // namespace cryptimg::fuzz
