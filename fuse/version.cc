// SPDX-License-Identifier: GPL-3.0-or-later
#include <string>

#include <fuse_lowlevel.h>
#include <openssl/crypto.h>
#include <sodium.h>

#include "engines/engines.h"
#include "fuse/cli.h"

namespace cryptimg {

std::string version_text() {
  std::string text = "cryptimg " CRYPTIMG_VERSION "\n";
  text += std::string("libfuse ") + ::fuse_pkgversion() + "\n";
  // libcryptsetup cannot tell its version at run time: the one this was built with.
  text += "libcryptsetup " CRYPTIMG_CRYPTSETUP_VERSION "\n";
  text += std::string(::OpenSSL_version(OPENSSL_VERSION)) + "\n";
  text += std::string("libsodium ") + ::sodium_version_string() + "\n";
  text += "engines:";
  for (const EngineInfo& engine : list_engines(CipherSpec{})) {
    text += " " + engine.name;
  }
  return text + "\n";
}

}  // namespace cryptimg
