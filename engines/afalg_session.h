// SPDX-License-Identifier: GPL-3.0-or-later
//
// AfalgSession: a CipherSession whose work a driver of the kernel does, by the block algebra, and
// the CPU whatever the driver cannot, does not, or does wrongly. Internal to the afalg engine.
//
// An extent is cut into pieces of whole sectors, as large as an operation may be; pieces are under
// way on several lanes at once. A piece is prepared into its lane and mended out of it: its target
// is written only once the result is there, so that its source is untouched until then, in place
// too, and a piece that failed is redone from it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cipher_engine.h"
#include "engines/afalg_driver_use.h"
#include "engines/afalg_drivers.h"
#include "engines/block_algebra.h"
#include "engines/sector_ivs.h"

namespace cryptimg {

class AfalgSession final : public CipherSession {
 public:
  // `software` ciphers the same spec with the same key. REQUIRES: the driver is of mode `driver`
  // and serves a direction of the spec's mode.
  AfalgSession(const CipherSpec& spec, AlgMode driver, std::shared_ptr<AfalgDriverUse> use,
               std::shared_ptr<AfalgDriverUse::KeyedDriver> keyed, SectorIvs ivs,
               std::unique_ptr<CipherSession> software);
  ~AfalgSession() override;

  Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                   MutableBytes target) noexcept override;
  // Begins as many pieces as there are lanes free, waiting for one at least; finish() does the
  // rest.
  bool begin(Direction direction, std::uint64_t first_sector, Bytes source,
             MutableBytes target) noexcept override;
  Status finish() noexcept override;

 private:
  // The extent that is being worked on.
  struct Extent {
    Direction direction = Direction::decrypt;
    OffloadForm form = OffloadForm::none;
    std::uint64_t first_sector = 0;
    Bytes source;
    MutableBytes target;
  };
  // A piece of it under way, on the lane of the same index in lanes_.
  struct Piece {
    std::size_t at = 0;
    std::size_t size = 0;
    bool is_begun = false;
  };

  // In lanes_, of one that must not be used again.
  static constexpr unsigned kLostLane = ~0U;

  // Takes lanes for extent_ and begins a piece on each; false where the driver is of no use for it.
  bool begin_extent() noexcept;
  Status finish_extent() noexcept;
  // Begins the next piece of extent_ on this slot, or does it in software.
  void begin_next(std::size_t slot) noexcept;
  [[nodiscard]] std::size_t piece_bytes(const Extent& extent) const noexcept;
  bool begin_piece(const Extent& extent, std::size_t slot) noexcept;
  Status finish_piece(const Extent& extent, std::size_t slot) noexcept;
  // Whether a sector of the piece's result, chosen by `number`, is what the CPU makes of it.
  bool sample_is_right(const Extent& extent, std::size_t slot, std::uint64_t number) noexcept;
  Status in_software(const Extent& extent, std::size_t at, std::size_t size) noexcept;
  [[nodiscard]] SectorRun run_of(const Piece& piece, std::size_t slot) const noexcept;
  [[nodiscard]] MutableBytes ivs_of(std::size_t slot) noexcept;

  const CipherSpec spec_;
  const AlgMode driver_;
  const std::shared_ptr<AfalgDriverUse> use_;
  const std::shared_ptr<AfalgDriverUse::KeyedDriver> keyed_;
  const std::unique_ptr<CipherSession> software_;
  SectorIvs ivs_;
  std::size_t max_piece_bytes_;

  // From begin_extent() to finish_extent(): how much of it was begun, and the first failure.
  Extent extent_;
  std::size_t piece_bytes_ = 0;
  std::size_t at_ = 0;
  Status status_;

  // Scratch, made once. By slot: lanes held, what is under way on them, its IVs or tweaks.
  std::vector<unsigned> lanes_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> slot_ivs_;
  std::vector<std::byte> long_tweak_;
  std::vector<std::byte> sample_;  // a sector by the driver, and by the CPU
};

}  // namespace cryptimg
