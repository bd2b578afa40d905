// SPDX-License-Identifier: GPL-3.0-or-later
//
// The known-answer test that stands between an engine and data: one extent of 8 KiB, deciphered and
// enciphered at the spec's own key and sector size.
//
// The stored ciphertext is the kernel's: dm-crypt of Linux 6.1 wrote it, an implementation that
// shares nothing with the engines here (the commands are in tests/vectors/dm_crypt.txt, which holds
// the same values). The extent lies across the counter 2^32, so that `plain` (which wraps there)
// and `plain64` differ, and with 512-byte sectors is wide enough for engines that cipher 16 of them
// side by side.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "engines/engines.h"

namespace cryptimg {
namespace {

constexpr std::size_t kExtentBytes = 8192;
constexpr std::uint64_t kFirstCounter = (std::uint64_t{1} << 32) - 8;

struct KnownAnswer {
  CipherMode mode;
  IvMode iv;
  std::uint32_t key_size_bytes;
  std::uint32_t sector_size_bytes;
  std::string_view ciphertext_sha256;
};

// clang-format off
constexpr std::array kKnownAnswers = std::to_array<KnownAnswer>({
    {CipherMode::aes_xts, IvMode::plain, 32, 512,
     "ccdb0907ababea10d5e5e45df281691cea891ee38ccc02fadd8deade947e11da"},
    {CipherMode::aes_xts, IvMode::plain, 32, 1024,
     "2535a2a534fbd3449087bf5149147bf84642d7af64307fce836b3cb270d3332f"},
    {CipherMode::aes_xts, IvMode::plain, 32, 2048,
     "c623ce7af495679a50ee59736e84c3719a0ba1547e9f11e188a7a0e6229d368f"},
    {CipherMode::aes_xts, IvMode::plain, 32, 4096,
     "1006e7df3e3ed13c3a95ef1e91cc94f37a45b487fa1f8e24c0828fda2f634553"},
    {CipherMode::aes_xts, IvMode::plain, 64, 512,
     "68e9062cc209720cfb8fa830cd1e23e8bd3bbd35505e7ef045a4dba786144d58"},
    {CipherMode::aes_xts, IvMode::plain, 64, 1024,
     "3a6a5f3575c3098f5bc50febc94c321a7456650f6691941f92767459758b0c65"},
    {CipherMode::aes_xts, IvMode::plain, 64, 2048,
     "6363b14bfb75b840147bcfbca6b105259379512b46ac71b2695fee8edc3b0dfa"},
    {CipherMode::aes_xts, IvMode::plain, 64, 4096,
     "f6652ace59eff7d9ea61c5e929b62fb01444b703cb637b86501b0aa9092e1953"},
    {CipherMode::aes_xts, IvMode::plain64, 32, 512,
     "59d65d9caa3d6e4c674f8536cc52d809c0b42ff1c20f37f5cca7fc4b07d100e7"},
    {CipherMode::aes_xts, IvMode::plain64, 32, 1024,
     "cc8ec23590d80196b89db7163a7d72230b14134ce2696caeb77afb50a002e992"},
    {CipherMode::aes_xts, IvMode::plain64, 32, 2048,
     "563adcf02b5519b47a623fc324ce0eae3e37cf56734a7f63bb95023070845ae7"},
    {CipherMode::aes_xts, IvMode::plain64, 32, 4096,
     "c5682eb67bc9f441c32f1be1e2e9a77fd922915e56d475942f46eb4a3ff8f808"},
    {CipherMode::aes_xts, IvMode::plain64, 64, 512,
     "6458f7618188be16227446703c9da6f1d319c332d182f2de7e8ceef71715a493"},
    {CipherMode::aes_xts, IvMode::plain64, 64, 1024,
     "c71e7020dc0e1dfdbb8574c48db966fed68afb370d7a59b730fac2d1cdf2d9d5"},
    {CipherMode::aes_xts, IvMode::plain64, 64, 2048,
     "7246c8b01069c142c06b84a9c41eb1355b3cd1281959e80903a50c47501e0718"},
    {CipherMode::aes_xts, IvMode::plain64, 64, 4096,
     "849904d4a29e585a91bc23272fff7239fd60b1a5198fd694c63110dd2ebb266c"},
    {CipherMode::aes_cbc, IvMode::plain, 16, 512,
     "4a7918f2aaefce58d450114a1e0c2ada9f5f01174780166fbc0149b1b9785d57"},
    {CipherMode::aes_cbc, IvMode::plain, 16, 1024,
     "d427f3bf1f905e991f704d0727c3222059525d314afb82e764542930cd775ab8"},
    {CipherMode::aes_cbc, IvMode::plain, 16, 2048,
     "6a73942fc91e6919b06c2e72e0bac8b932ea2cda5ed0b373c10e9064b7251da3"},
    {CipherMode::aes_cbc, IvMode::plain, 16, 4096,
     "42baf4cb484c36f87bc506609da6a21918af637b779696652040a7efa0be54ce"},
    {CipherMode::aes_cbc, IvMode::plain, 24, 512,
     "42eefd662eff6387a475f287c442398d45dc348cec5a6ce6af4eb0f3ad2a4304"},
    {CipherMode::aes_cbc, IvMode::plain, 24, 1024,
     "0f162bb7ea6e760df5facddba0c43f19c25dd18b81b33bf9dda3c76b528a0dc4"},
    {CipherMode::aes_cbc, IvMode::plain, 24, 2048,
     "3054999beb12672395b5cd8780a558c13e397cc9096a8bef0cd32afc3a2eed15"},
    {CipherMode::aes_cbc, IvMode::plain, 24, 4096,
     "3186fcd52e4e63b09a8fd728dc9928999e0a1a241b7a4a90b2b610a9ac2313ab"},
    {CipherMode::aes_cbc, IvMode::plain, 32, 512,
     "62b6d9d188ece31bd94ec0fb5ce4b129ac12df21d3b7382e77b7f9b96e7348a5"},
    {CipherMode::aes_cbc, IvMode::plain, 32, 1024,
     "5fee575af9e40590a4b470c3d959997629c82491ef0df246fdacde1eeacbcd5f"},
    {CipherMode::aes_cbc, IvMode::plain, 32, 2048,
     "8ad1545a538d9ebc06ee6ed157f49d0b7287e3f530976958d95e3920ad61b9d3"},
    {CipherMode::aes_cbc, IvMode::plain, 32, 4096,
     "012ee17620376f00d9941cf50446abebc4fab06744f422283c14c71f51496b59"},
    {CipherMode::aes_cbc, IvMode::plain64, 16, 512,
     "96be08e0ede2f62dc273f6c7e0b3a463caa99626c3c6d3dfc860f2d610200ba5"},
    {CipherMode::aes_cbc, IvMode::plain64, 16, 1024,
     "dae67dfa456e96c6f76415c989df2ced185421464c2a570fcf963ec611eb9abc"},
    {CipherMode::aes_cbc, IvMode::plain64, 16, 2048,
     "930371641876cecbbee2b9b7c8029a286c661e662659475a339bab2e4c703f02"},
    {CipherMode::aes_cbc, IvMode::plain64, 16, 4096,
     "9135a8aee02b0e423f5bcf8dbe89263a5103e5e617b5c2fc591c6363fe766d59"},
    {CipherMode::aes_cbc, IvMode::plain64, 24, 512,
     "98d576108025d59005ef720fc1f73a012c547af6147759c3b39a54ebbf90983d"},
    {CipherMode::aes_cbc, IvMode::plain64, 24, 1024,
     "df24d170574807555b1c93a30f6c386e5c0d11543b1f3d16ee68cd877cbc5981"},
    {CipherMode::aes_cbc, IvMode::plain64, 24, 2048,
     "060d501ebfceaf0dc6a9e9d52eddcd4d4fe8488d38b049fb32b741a4249ac2c3"},
    {CipherMode::aes_cbc, IvMode::plain64, 24, 4096,
     "fad8d2c8b29e48ad5045139b601456d91a5717f0026d872923511cda3aa72958"},
    {CipherMode::aes_cbc, IvMode::plain64, 32, 512,
     "cab80e3e18065ea957adf009ae2dff2c3d9594bdf1e9c1c4a2f5ffab47dd95c7"},
    {CipherMode::aes_cbc, IvMode::plain64, 32, 1024,
     "467c88f69481e909da48cec3edb14eabe0439212129b7480b92bdb8117bd3caa"},
    {CipherMode::aes_cbc, IvMode::plain64, 32, 2048,
     "48ac3ac60ca93d4fe2cd90eec32931df3721bbc76280bbbf0b7f38e2809bbd4e"},
    {CipherMode::aes_cbc, IvMode::plain64, 32, 4096,
     "54dc2bbc7a092c6a7936fd3f0234eaa2e1dcfd66ba4a2a6da24413556ab9b783"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 16, 512,
     "7777dc5bd2ba02408cf7c31b7d07a88276e08e7298eebcc7cd27db3688de53fa"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 16, 1024,
     "71f3c3ecfcadca848803d8f12b5ed82bd8f94a37f540095cb22f271de5a2de8c"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 16, 2048,
     "be68066d11e3157b14aa2ba1667925344fbf1e47815c297a26e2b423972ff495"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 16, 4096,
     "5fd9d481c783ea235740f15da01ef1fdeb90868d37f7dbe1159e426f758c3130"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 24, 512,
     "b5344919d08a29940bfaef3373ebb246b57134a7a9097d4afa6ca2c36c708dc2"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 24, 1024,
     "8e7406c2591db24b8dd0a63f27155ee4b48dca69674c2949282bdc29f3ca1223"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 24, 2048,
     "feaf9c3348a803732b805c0f30a9d16cc53820fed97f0dcb1e1a9b84524001d6"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 24, 4096,
     "015584bc3f9d45694925990b1977ec50fce2b2a546cf53bb7b71e21c0ab29654"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 512,
     "01c90853082c5150e3ac68988d76ae81b834097c097d75606a115ffe7152b55e"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 1024,
     "0914e563424374627bb90b2365c80d3d540f03620c945ffee80bb8241ea54459"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 2048,
     "653f9812486054fbb98238034d1ab132174faa52a8264ff3c1c2a3f4672e4ec7"},
    {CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 4096,
     "94696e760d6029e7bf11c6b93767863001deab9b82225830a298617d27472f90"},
});
// clang-format on

struct alignas(4096) Extent8k {
  std::array<std::byte, kExtentBytes> bytes{};
};

Extent8k known_plaintext() {
  Extent8k plain;
  for (std::size_t i = 0; i < plain.bytes.size(); ++i) {
    plain.bytes[i] = static_cast<std::byte>((i * i + 3 * (i / 256) + i) % 251);
  }
  return plain;
}

Result<Secret> known_key(std::size_t size_bytes) {
  CRYPTIMG_ASSIGN_OR_RETURN(Secret key, Secret::allocate(size_bytes));
  const MutableBytes bytes = key.mutable_bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((7 * i + 1) % 256);
  }
  return key;
}

// Empty where OpenSSL has no SHA-256, which then equals no stored digest.
std::string sha256_hex(Bytes data) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  unsigned int size_bytes = 0;
  if (EVP_Digest(data.data(), data.size(), digest.data(), &size_bytes, EVP_sha256(), nullptr) !=
      1) {
    return {};
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

// The whole extent, in pieces no larger than the engine takes.
Status transform_extent(CipherSession& session, const CipherEngine& engine, const CipherSpec& spec,
                        Direction direction, Bytes source, MutableBytes target) {
  const std::uint64_t sector_bytes = spec.sector_size_bytes;
  const std::uint64_t first_sector = kFirstCounter / (sector_bytes / kIvUnitBytes);
  const std::size_t piece_bytes =
      round_down(std::min(engine.limits().max_bytes, source.size()), sector_bytes);
  if (piece_bytes == 0) {
    return fail(Errc::unavailable, "it takes less than a sector at a time");
  }
  for (std::size_t at = 0; at < source.size(); at += piece_bytes) {
    const std::size_t size = std::min(piece_bytes, source.size() - at);
    CRYPTIMG_RETURN_IF_ERROR(session.transform(direction, first_sector + at / sector_bytes,
                                               source.subspan(at, size), target.subspan(at, size)));
  }
  return {};
}

tl::unexpected<Error> test_failure(const CipherEngine& engine, const CipherSpec& spec,
                                   const std::string& what) {
  return fail(Errc::unavailable, "the engine " + std::string(engine.name()) + " " + what +
                                     " in its known-answer test of " + cipher_name(spec) +
                                     ", do not use it on this machine");
}

}  // namespace

Status known_answer_test(const CipherEngine& engine, const CipherSpec& spec) {
  CRYPTIMG_RETURN_IF_ERROR(check_spec(spec));
  const auto* const answer =
      std::find_if(kKnownAnswers.begin(), kKnownAnswers.end(), [&spec](const KnownAnswer& known) {
        return spec ==
               CipherSpec{known.mode, known.iv, known.key_size_bytes, known.sector_size_bytes};
      });
  if (answer == kKnownAnswers.end()) {
    return test_failure(engine, spec, "has nothing to be compared with");
  }
  CRYPTIMG_ASSIGN_OR_RETURN(const Secret key, known_key(spec.key_size_bytes));
  CRYPTIMG_ASSIGN_OR_RETURN(const auto session, engine.new_session(spec, key));

  const Extent8k plain = known_plaintext();
  Extent8k work;
  if (!transform_extent(*session, engine, spec, Direction::encrypt, plain.bytes, work.bytes)) {
    return test_failure(engine, spec, "failed to encipher");
  }
  if (sha256_hex(work.bytes) != answer->ciphertext_sha256) {
    return test_failure(engine, spec, "enciphered wrongly");
  }
  if (!transform_extent(*session, engine, spec, Direction::decrypt, work.bytes, work.bytes)) {
    return test_failure(engine, spec, "failed to decipher");
  }
  if (work.bytes != plain.bytes) {
    return test_failure(engine, spec, "deciphered wrongly");
  }
  return {};
}

}  // namespace cryptimg
