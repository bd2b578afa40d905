// SPDX-License-Identifier: GPL-3.0-or-later
#include "engines/afalg_session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <openssl/crypto.h>

#include "engines/engine_checks.h"

namespace cryptimg {
namespace {

// Wiped when it goes.
struct PlaintextInLane {
  MutableBytes sent;
  MutableBytes answer;
  ~PlaintextInLane() {
    wipe(sent);
    wipe(answer);
  }
};

}  // namespace

AfalgSession::AfalgSession(const CipherSpec& spec, AlgMode driver,
                           std::shared_ptr<AfalgDriverUse> use,
                           std::shared_ptr<AfalgDriverUse::KeyedDriver> keyed, SectorIvs ivs,
                           std::unique_ptr<CipherSession> software)
    : spec_(spec),
      driver_(driver),
      use_(std::move(use)),
      keyed_(std::move(keyed)),
      software_(std::move(software)),
      ivs_(std::move(ivs)),
      max_piece_bytes_(use_->options().sector_by_sector ? spec.sector_size_bytes
                                                        : keyed_->max_bytes()),
      pieces_(use_->options().lanes),
      slot_ivs_(use_->options().lanes * kLaneIvBytes),
      long_tweak_(kCipherBlockBytes),
      sample_(std::size_t{2} * spec.sector_size_bytes) {
  lanes_.reserve(use_->options().lanes);
  // At least a page, so a sector.
  max_piece_bytes_ = round_down(max_piece_bytes_, spec.sector_size_bytes);
  if (spec_.mode == CipherMode::aes_xts && !ivs_.zero_tweak(long_tweak_)) {
    use_->give_up("OpenSSL makes no tweaks");
  }
}

AfalgSession::~AfalgSession() {
  wipe(slot_ivs_);
  wipe(long_tweak_);
  wipe(sample_);
}

Status AfalgSession::transform(Direction direction, std::uint64_t first_sector, Bytes source,
                               MutableBytes target) noexcept {
  if (!transform_is_valid(spec_, first_sector, source, target)) {
    wipe(target);
    return fail(Errc::invalid_argument);
  }
  extent_ = {direction, offload_form(spec_.mode, driver_, direction), first_sector, source, target};
  const Status status = begin_extent() ? finish_extent() : in_software(extent_, 0, source.size());
  if (!status) {
    wipe(target);
  }
  return status;
}

bool AfalgSession::begin(Direction direction, std::uint64_t first_sector, Bytes source,
                         MutableBytes target) noexcept {
  if (!transform_is_valid(spec_, first_sector, source, target)) {
    return false;
  }
  extent_ = {direction, offload_form(spec_.mode, driver_, direction), first_sector, source, target};
  return begin_extent();
}

Status AfalgSession::finish() noexcept {
  const Status status = finish_extent();
  if (!status) {
    wipe(extent_.target);
  }
  return status;
}

bool AfalgSession::begin_extent() noexcept {
  if (extent_.form == OffloadForm::none || use_->is_given_up()) {
    return false;
  }
  const std::size_t size = extent_.source.size();
  const std::size_t wanted = (size + max_piece_bytes_ - 1) / max_piece_bytes_;
  const bool is_serial = extent_.form == OffloadForm::cbc_sectors;
  const std::size_t sectors = size / spec_.sector_size_bytes;
  lanes_.clear();
  use_->take_lanes(static_cast<unsigned>(
                       std::min<std::size_t>(is_serial ? sectors : wanted, use_->options().lanes)),
                   lanes_);
  if (lanes_.empty()) {
    return false;
  }
  piece_bytes_ = piece_bytes(extent_);
  at_ = 0;
  status_ = {};
  for (std::size_t slot = 0; slot < lanes_.size(); ++slot) {
    pieces_[slot] = {};
    begin_next(slot);
  }
  return true;
}

void AfalgSession::begin_next(std::size_t slot) noexcept {
  const std::size_t left = extent_.source.size() - at_;
  if (left == 0) {
    return;
  }
  pieces_[slot] = {at_, std::min(piece_bytes_, left), false};
  at_ += pieces_[slot].size;
  if (!begin_piece(extent_, slot)) {
    const Status redone = in_software(extent_, pieces_[slot].at, pieces_[slot].size);
    status_ = status_ ? redone : status_;
  }
}

// In turn: the slot that was begun first ends first, and takes the next piece.
Status AfalgSession::finish_extent() noexcept {
  const auto is_begun = [](const Piece& piece) { return piece.is_begun; };
  const auto end = pieces_.begin() + static_cast<std::ptrdiff_t>(lanes_.size());
  for (std::size_t slot = 0;
       at_ < extent_.source.size() || std::any_of(pieces_.begin(), end, is_begun);
       slot = (slot + 1) % lanes_.size()) {
    if (pieces_[slot].is_begun) {
      const Status finished = finish_piece(extent_, slot);
      status_ = status_ ? finished : status_;
    }
    begin_next(slot);
  }
  for (const unsigned lane : lanes_) {
    if (lane != kLostLane) {
      use_->give_back(lane);
    }
  }
  return std::exchange(status_, Status());
}

// The largest piece, except where the operations in a piece come one after the other: then all
// lanes get a share.
std::size_t AfalgSession::piece_bytes(const Extent& extent) const noexcept {
  if (extent.form != OffloadForm::cbc_sectors) {
    return max_piece_bytes_;
  }
  const std::size_t sectors = extent.source.size() / spec_.sector_size_bytes;
  const std::size_t share = (sectors + lanes_.size() - 1) / lanes_.size();
  // Few enough that a slow device is done with them in good time.
  constexpr std::size_t kMostSectors = 32;
  return std::min(std::min(share, kMostSectors) * spec_.sector_size_bytes, max_piece_bytes_);
}

MutableBytes AfalgSession::ivs_of(std::size_t slot) noexcept {
  return MutableBytes(slot_ivs_).subspan(slot * kLaneIvBytes, kLaneIvBytes);
}

SectorRun AfalgSession::run_of(const Piece& piece, std::size_t slot) const noexcept {
  const std::size_t iv_bytes = piece.size / spec_.sector_size_bytes * kCipherBlockBytes;
  return {spec_.sector_size_bytes, Bytes(slot_ivs_).subspan(slot * kLaneIvBytes, iv_bytes),
          long_tweak_};
}

// False where nothing is under way; counted as a failure if the driver was to blame.
bool AfalgSession::begin_piece(const Extent& extent, std::size_t slot) noexcept {
  Piece& piece = pieces_[slot];
  if (use_->is_given_up() || lanes_[slot] == kLostLane) {
    return false;
  }
  const SectorRun run = run_of(piece, slot);
  if (!ivs_.fill(extent.first_sector + piece.at / spec_.sector_size_bytes,
                 ivs_of(slot).first(run.ivs.size()))) {
    return false;
  }
  const AfalgHelper::Lane& lane = use_->helper().lane(lanes_[slot]);
  prepare_run(extent.form, run, extent.source.subspan(piece.at, piece.size),
              lane.sent.first(piece.size));
  const bool is_serial = extent.form == OffloadForm::cbc_sectors;
  if (is_serial) {
    std::memcpy(lane.ivs.data(), run.ivs.data(), run.ivs.size());
  } else {
    const auto iv = operation_iv(extent.form, run);
    std::memcpy(lane.ivs.data(), iv.data(), iv.size());
  }
  AfalgHelper::Work work;
  work.transform = keyed_->number();
  work.direction = extent.direction;
  work.has_iv = driver_ != AlgMode::ecb;
  work.size_bytes = static_cast<std::uint32_t>(piece.size);
  work.step_bytes = is_serial ? spec_.sector_size_bytes : work.size_bytes;
  piece.is_begun = use_->helper().begin(lanes_[slot], work, use_->patience());
  if (!piece.is_begun) {
    use_->count_failure(EPIPE);
  }
  return piece.is_begun;
}

Status AfalgSession::finish_piece(const Extent& extent, std::size_t slot) noexcept {
  Piece& piece = pieces_[slot];
  piece.is_begun = false;
  const AfalgHelper::Lane& lane = use_->helper().lane(lanes_[slot]);
  // The helper sees it, and it lies there until the lane is used again.
  const PlaintextInLane plaintext{lane.sent.first(piece.size), lane.answer.first(piece.size)};
  const int error = use_->helper().finish(lanes_[slot]);
  if (error != 0) {
    if (error == ETIMEDOUT || error == EPIPE) {
      lanes_[slot] = kLostLane;
    }
    use_->count_failure(error);
    return in_software(extent, piece.at, piece.size);
  }
  // Whoever gave the driver up meanwhile may have caught it lying.
  if (use_->is_given_up()) {
    return in_software(extent, piece.at, piece.size);
  }
  const std::uint64_t number = use_->next_piece();
  if (number % use_->options().sample_every == 0 && !sample_is_right(extent, slot, number)) {
    use_->count_failure(EILSEQ);
    use_->give_up("its driver gave a wrong result");
    return in_software(extent, piece.at, piece.size);
  }
  mend_run(extent.form, run_of(piece, slot), lane.sent.first(piece.size),
           lane.answer.first(piece.size), extent.target.subspan(piece.at, piece.size));
  const bool is_serial = extent.form == OffloadForm::cbc_sectors;
  use_->count_success(is_serial ? piece.size / spec_.sector_size_bytes : 1, piece.size);
  return {};
}

bool AfalgSession::sample_is_right(const Extent& extent, std::size_t slot,
                                   std::uint64_t number) noexcept {
  const Piece& piece = pieces_[slot];
  const std::size_t sector_bytes = spec_.sector_size_bytes;
  // Numbers that are multiples of sample_every must not meet the same sector each time.
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  const std::size_t index = ((number + 1) * kMix >> 32U) % (piece.size / sector_bytes);
  const AfalgHelper::Lane& lane = use_->helper().lane(lanes_[slot]);
  const MutableBytes theirs = MutableBytes(sample_).first(sector_bytes);
  const MutableBytes right = MutableBytes(sample_).subspan(sector_bytes);
  mend_sector(extent.form, run_of(piece, slot), index, lane.sent.first(piece.size),
              lane.answer.first(piece.size), theirs);
  const Status status = software_->transform(
      extent.direction, extent.first_sector + piece.at / sector_bytes + index,
      extent.source.subspan(piece.at + index * sector_bytes, sector_bytes), right);
  const bool is_right = status && CRYPTO_memcmp(theirs.data(), right.data(), sector_bytes) == 0;
  wipe(sample_);
  return is_right;
}

Status AfalgSession::in_software(const Extent& extent, std::size_t at, std::size_t size) noexcept {
  use_->count_software(size);
  return software_->transform(extent.direction, extent.first_sector + at / spec_.sector_size_bytes,
                              extent.source.subspan(at, size), extent.target.subspan(at, size));
}

}  // namespace cryptimg
