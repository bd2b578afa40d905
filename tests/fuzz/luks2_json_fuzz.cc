// SPDX-License-Identifier: GPL-3.0-or-later
//
// The JSON of a LUKS2 header without libcryptsetup before it, and where its segment lies on a
// device. Input: the device's size, whether the header is on it, where a foreign header ends; the
// JSON.
#include <string>

#include "core/luks_header.h"
#include "tests/fuzz/fuzz.h"

namespace {

// Arithmetic that cannot overflow.
__extension__ using Wide = unsigned __int128;

void check_placement(const cryptimg::LuksHeader& header, const cryptimg::DataFacts& data,
                     cryptimg::fuzz::Reach& reach) {
  const cryptimg::Placement placement = cryptimg::judge_placement(header, data);
  FUZZ_CHECK(cryptimg::fuzz::is_one_line(placement.refusal));
  FUZZ_CHECK(cryptimg::fuzz::is_one_line(placement.write_refusal));
  FUZZ_CHECK(placement.refusal.empty() || !placement.write_refusal.empty());
  FUZZ_CHECK(header.structure_refusal.empty() || !placement.refusal.empty());
  if (!placement.refusal.empty()) {
    reach.at("refused");
    return;
  }
  reach.at("placed");
  const Wide offset = header.info.data_offset_bytes;
  const Wide end = offset + placement.image_size_bytes;
  FUZZ_CHECK(end <= Wide(INT64_MAX));
  FUZZ_CHECK(offset % 512 == 0);
  FUZZ_CHECK(placement.image_size_bytes > 0);
  FUZZ_CHECK(placement.image_size_bytes % header.info.sector_size_bytes == 0);
  FUZZ_CHECK(!data.header_in_same_file || offset >= header.header_end_bytes);
  FUZZ_CHECK(offset >= data.foreign_header_end_bytes);
  FUZZ_CHECK(!placement.write_refusal.empty() || end <= data.device_size_bytes);
  if (header.fixed_size_bytes) {
    FUZZ_CHECK(placement.image_size_bytes == *header.fixed_size_bytes);
  } else {
    FUZZ_CHECK(end <= data.device_size_bytes);
    FUZZ_CHECK(end + header.info.sector_size_bytes > data.device_size_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg::fuzz;
  static Reach reach{"malformed", "refused", "placed"};
  Input input(data, size);
  cryptimg::DataFacts facts;
  facts.device_size_bytes = input.number(8) >> 1;  // no device is larger
  facts.header_in_same_file = input.number(1) % 2 == 1;
  facts.foreign_header_end_bytes = facts.header_in_same_file ? 0 : input.number(2) << 9;
  cryptimg::LuksHeader header;
  header.info.metadata_size_bytes = 16384;
  const auto parsed = cryptimg::parse_luks2_json(input.rest(), header);
  FUZZ_CHECK(is_one_line(header.structure_refusal));
  if (!parsed) {
    reach.at("malformed");
    FUZZ_CHECK(parsed.error().code == cryptimg::Errc::corrupt);
    FUZZ_CHECK(is_one_line(parsed.error().message) && !parsed.error().message.empty());
    return 0;
  }
  FUZZ_CHECK(header.info.keyslots.size() <= 32);
  check_placement(header, facts, reach);
  return 0;
}
