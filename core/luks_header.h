// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a LUKS header says, and whether this program serves it. LUKS1 is read through
// libcryptsetup's calls, LUKS2 from its JSON, since the calls tell neither segments nor iv_tweak
// nor requirements. Everything in a header is input from outside: values are parsed with range
// checks and judged against each other and the device's size. Format: "LUKS2 On-Disk Format
// Specification", sections 2 and 3; LUKS1: "LUKS On-Disk Format Specification 1.2.3". No state: any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cipher_engine.h"
#include "core/container.h"
#include "core/crypt_device.h"
#include "core/result.h"

namespace cryptimg {

struct LuksHeader {
  ContainerInfo info;  // refusal and image_size_bytes not yet filled
  CipherSpec spec;     // meaningful where structure_refusal is empty

  // The segment's own size; nothing where it is all that the device has ("dynamic", LUKS1).
  std::optional<std::uint64_t> fixed_size_bytes;
  // Where header and keyslots end, in the header's file: data of an attached header lies behind.
  std::uint64_t header_end_bytes = 0;
  // Why this header is not served, whatever the device; empty where it is.
  std::string structure_refusal;
};

// Where the data lies.
struct DataFacts {
  std::uint64_t device_size_bytes = 0;
  bool header_in_same_file = false;
  // Of a detached header: where a LUKS header that the data file has all the same ends, else 0.
  std::uint64_t foreign_header_end_bytes = 0;
};

// Loads the header behind `device` and reads all of it. corrupt where there is none, or
// libcryptsetup finds it damaged; `name` is what to call the file in messages, `file_size_bytes`
// its size.
Result<LuksHeader> read_luks_header(CryptDevice& device, int header_fd, const std::string& name,
                                    std::uint64_t file_size_bytes);

// What follows from header and device together.
struct Placement {
  std::uint64_t image_size_bytes = 0;  // 0 where it cannot be told
  std::string refusal;                 // why nobody is served; empty where readers are
  std::string write_refusal;           // why writers are not; also set where refusal is
};
Placement judge_placement(const LuksHeader& header, const DataFacts& data);

// The part of a LUKS2 header that is JSON, from its text. Split from the rest for tests: it is what
// an attacker writes most freely. Fills segments, keyslots, requirements; corrupt where the text is
// not what the specification says.
Status parse_luks2_json(std::string_view text, LuksHeader& header);

}  // namespace cryptimg
