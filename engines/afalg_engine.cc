// SPDX-License-Identifier: GPL-3.0-or-later
//
// afalg: AES by a driver of the kernel, for hardware behind it. Optional, and trusted no further
// than it is tested: what it fails at, the CPU does.
#include "engines/afalg_engine.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engines/afalg_driver_use.h"
#include "engines/afalg_drivers.h"
#include "engines/afalg_session.h"
#include "engines/block_algebra.h"
#include "engines/engine_checks.h"
#include "engines/sector_ivs.h"

namespace cryptimg {

// Defined in the file named after it.
std::shared_ptr<const CipherEngine> make_openssl_engine();

namespace {

class AfalgEngine final : public CipherEngine {
 public:
  AfalgEngine(std::shared_ptr<const AlgKernel> kernel, AfalgOptions options)
      : name_(options.driver.empty() ? "afalg" : "afalg:" + options.driver),
        kernel_(kernel),
        software_(options.software ? options.software : make_openssl_engine()),
        use_(std::make_shared<AfalgDriverUse>(std::move(kernel), std::move(options))) {}

  [[nodiscard]] std::string_view name() const override { return name_; }

  [[nodiscard]] std::string description() const override {
    const std::string& text = proc_crypto();
    std::string drivers;
    if (!use_->options().driver.empty()) {
      drivers = use_->options().driver;
    } else {
      for (const CipherMode mode : {CipherMode::aes_xts, CipherMode::aes_cbc}) {
        const auto best = best_hardware(parse_proc_crypto(text), mode);
        if (best && best->name != drivers) {
          drivers += (drivers.empty() ? "" : ", ") + best->name;
        }
      }
    }
    return "AES of the kernel through AF_ALG" + (drivers.empty() ? "" : ", driver " + drivers);
  }

  [[nodiscard]] Status supports(const CipherSpec& spec) const override {
    CRYPTIMG_RETURN_IF_ERROR(driver_for(spec));
    return {};
  }

  [[nodiscard]] bool has_driver() const override { return true; }
  [[nodiscard]] DriverCounters driver_counters() const noexcept override {
    return use_->counters();
  }

  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override {
    CRYPTIMG_ASSIGN_OR_RETURN(const AlgDriver driver, driver_for(spec));
    CRYPTIMG_RETURN_IF_ERROR(check_key(spec, key));
    // XTS by another mode needs the data key only: the tweaks are made here.
    const bool is_half = spec.mode == CipherMode::aes_xts && driver.mode != AlgMode::xts;
    const Bytes driver_key = is_half ? key.bytes().first(key.size() / 2) : key.bytes();
    // Before any key schedule of ours exists: the first call forks.
    CRYPTIMG_ASSIGN_OR_RETURN(auto keyed, use_->open(driver.name, driver_key));
    CRYPTIMG_ASSIGN_OR_RETURN(SectorIvs ivs, SectorIvs::create(spec, key));
    CRYPTIMG_ASSIGN_OR_RETURN(auto software, software_->new_session(spec, key));
    return std::make_unique<AfalgSession>(spec, driver.mode, use_, std::move(keyed), std::move(ivs),
                                          std::move(software));
  }

 private:
  // The driver that serves `spec`, or why none does.
  [[nodiscard]] Result<AlgDriver> driver_for(const CipherSpec& spec) const {
    CRYPTIMG_RETURN_IF_ERROR(check_spec(spec));
    const std::string& text = proc_crypto();
    const std::string& asked = use_->options().driver;
    if (asked.empty()) {
      const auto best = best_hardware(parse_proc_crypto(text), spec.mode);
      if (!best) {
        return fail(Errc::unavailable, "/proc/crypto shows no hardware that serves " +
                                           cipher_name(spec) +
                                           "; afalg:DRIVER takes any driver, software too");
      }
      // Not before: where there is no hardware, nobody need load the kernel's module.
      CRYPTIMG_RETURN_IF_ERROR(kernel_->available());
      return *best;
    }
    CRYPTIMG_RETURN_IF_ERROR(kernel_->available());
    const auto driver = find_driver(text, asked);
    if (!driver) {
      return fail(Errc::unavailable, "/proc/crypto shows no AES driver '" + asked +
                                         "', check the name and whether its module is loaded");
    }
    if (offload_form(spec.mode, driver->mode, Direction::decrypt) == OffloadForm::none) {
      return fail(Errc::unavailable, "the driver " + asked + " offers " +
                                         std::string(alg_name(driver->mode)) +
                                         ", of which nothing can be made for " + cipher_name(spec));
    }
    return *driver;
  }

  // Read once: sessions are also opened by threads that may not open files any more.
  [[nodiscard]] const std::string& proc_crypto() const {
    std::call_once(once_, [this] { proc_crypto_ = kernel_->proc_crypto(); });
    return proc_crypto_;
  }

  mutable std::once_flag once_;
  mutable std::string proc_crypto_;  // constant after once_
  const std::string name_;
  const std::shared_ptr<const AlgKernel> kernel_;
  const std::shared_ptr<const CipherEngine> software_;
  const std::shared_ptr<AfalgDriverUse> use_;
};

}  // namespace

std::shared_ptr<const CipherEngine> make_afalg_engine(std::shared_ptr<const AlgKernel> kernel,
                                                      AfalgOptions options) {
  return std::make_shared<AfalgEngine>(std::move(kernel), std::move(options));
}

}  // namespace cryptimg
