// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mount_options.h"

#include <string>

#include <gtest/gtest.h>

namespace cryptimg {
namespace {

MountOptions parsed(const std::string& text) {
  MountOptions options;
  const Status status = apply_mount_words(options, text);
  EXPECT_TRUE(status) << text << ": " << (status ? "" : status.error().message);
  return options;
}

std::string refusal(const std::string& text) {
  MountOptions options;
  const Status status = apply_mount_words(options, text);
  EXPECT_FALSE(status) << text;
  if (status) {
    return {};
  }
  EXPECT_EQ(status.error().code, Errc::invalid_argument);
  return status.error().message;
}

TEST(MountWords, FusesOwn) {
  const MountOptions options =
      parsed("allow_other,default_permissions,uid=1000,gid=4294967294,umask=077,ro");
  EXPECT_TRUE(options.allow_other);
  EXPECT_FALSE(options.allow_root);
  EXPECT_TRUE(options.default_permissions);
  EXPECT_EQ(options.uid, 1000U);
  EXPECT_EQ(options.gid, 4294967294U);
  EXPECT_EQ(options.umask, 077U);
  EXPECT_TRUE(options.read_only);
}

TEST(MountWords, EachLongOption) {
  const MountOptions options = parsed(
      "key-file=/k,header=/"
      "h,key-slot=3,engine=openssl,offload-unit=sector,workers=0,max-read-size=64K,"
      "max_write_size=4096,log-file=/l,log-level=debug,foreground,readonly,"
      "require-cipher=aes-cbc-essiv:sha256,uuid=1-2,no-sandbox,allow-costly-kdf");
  EXPECT_EQ(options.key_file, "/k");
  EXPECT_EQ(options.header, "/h");
  EXPECT_EQ(options.keyslot, 3);
  EXPECT_EQ(options.engine, "openssl");
  EXPECT_TRUE(options.offload_by_sector);
  EXPECT_EQ(options.workers, 0U);
  EXPECT_EQ(options.max_read_size_bytes, 65536U);
  EXPECT_EQ(options.max_write_size_bytes, 4096U);
  EXPECT_EQ(options.log_file, "/l");
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_TRUE(options.foreground);
  EXPECT_TRUE(options.read_only);
  EXPECT_EQ(options.require_cipher, "aes-cbc-essiv:sha256");
  EXPECT_EQ(options.uuid, "1-2");
  EXPECT_FALSE(options.sandbox);
  EXPECT_TRUE(options.allow_costly_kdf);
  EXPECT_TRUE(parsed("").sandbox);
  EXPECT_FALSE(parsed("").allow_costly_kdf);
}

TEST(MountWords, HowRequestsAreMergedAndReadAhead) {
  const MountOptions defaults = parsed("");
  EXPECT_TRUE(defaults.coalesce);
  EXPECT_EQ(defaults.max_extent_bytes, 1048576U);
  EXPECT_EQ(defaults.readahead_bytes, 8388608U);
  const MountOptions options = parsed("coalesce=off,max-extent=64K,readahead=16M");
  EXPECT_FALSE(options.coalesce);
  EXPECT_EQ(options.max_extent_bytes, 65536U);
  EXPECT_EQ(options.readahead_bytes, 16777216U);
  EXPECT_TRUE(parsed("coalesce=off,coalesce=on").coalesce);
  EXPECT_EQ(defaults.backing_io, BackingIo::automatic);
  EXPECT_EQ(parsed("backing-io=auto").backing_io, BackingIo::automatic);
  EXPECT_EQ(parsed("backing-io=direct").backing_io, BackingIo::direct);
  EXPECT_EQ(parsed("backing-io=buffered").backing_io, BackingIo::buffered);
  EXPECT_EQ(parsed("backing-io=buffered,backing-io=mapped").backing_io, BackingIo::mapped);
  EXPECT_EQ(parsed("max-extent=4096").max_extent_bytes, 4096U);
  EXPECT_EQ(parsed("max-extent=1M").max_extent_bytes, 1048576U);
  EXPECT_EQ(parsed("readahead=0").readahead_bytes, 0U);
  EXPECT_EQ(parsed("readahead=1048576").readahead_bytes, 1048576U);
  EXPECT_EQ(parsed("readahead=64M").readahead_bytes, 67108864U);
}

TEST(MountWords, WhatIsMergedAndReadAheadHasLimits) {
  for (const char* text :
       {"coalesce=", "coalesce=ON", "coalesce=1", "coalesce=offf", "max-extent=", "max-extent=0",
        "max-extent=4095", "max-extent=1048577", "max-extent=-1", "max-extent=1X",
        "readahead=", "readahead=1", "readahead=1048575", "readahead=67108865", "readahead=-1",
        "readahead=99999999999999999999"}) {
    const std::string option = std::string(text).substr(0, std::string(text).find('='));
    EXPECT_EQ(refusal(text).substr(0, option.size()), option) << text;
  }
  EXPECT_NE(refusal("backing-io=sideways").find("mapped, buffered or direct"), std::string::npos);
  EXPECT_NE(refusal("coalesce=yes").find("on or off"), std::string::npos);
  EXPECT_NE(refusal("max-extent=2M").find("4K to 1M"), std::string::npos);
  EXPECT_NE(refusal("readahead=1G").find("1M to 64M"), std::string::npos);
  for (const char* text : {"coalesce", "max-extent", "readahead", "max_extent=64K"}) {
    EXPECT_NE(refusal(text).find("unknown mount option"), std::string::npos) << text;
  }
}

TEST(MountWords, TheLaterWordWins) {
  EXPECT_FALSE(parsed("ro,rw").read_only);
  EXPECT_TRUE(parsed("rw,ro").read_only);
  EXPECT_EQ(parsed("workers=1,workers=2").workers, 2U);
  EXPECT_FALSE(parsed("offload-unit=sector,offload-unit=extent").offload_by_sector);
}

TEST(MountWords, OwnersHaveNames) {
  const MountOptions options = parsed("uid=root,gid=root");
  EXPECT_EQ(options.uid, 0U);
  EXPECT_EQ(options.gid, 0U);
  EXPECT_NE(refusal("uid=no such user").find("name of a user"), std::string::npos);
  EXPECT_NE(refusal("gid=no such group").find("name of a group"), std::string::npos);
}

TEST(MountWords, RemountIsRefusedWithWhatToDo) {
  EXPECT_NE(refusal("remount,ro").find("unmount"), std::string::npos);
}

TEST(MountWords, FstabsOwnArePassedOver) {
  parsed("");
  parsed(",,");
  const MountOptions options = parsed(
      "defaults,auto,noauto,nofail,user,users,nouser,group,owner,_netdev,x-systemd.automount,"
      "x-systemd.device-timeout=3,X-mount.mkdir,comment=a word,nosuid,nodev,noexec,"
      "noatime,relatime,nodiratime");
  EXPECT_FALSE(options.read_only);
  EXPECT_FALSE(options.allow_other);
}

TEST(MountWords, ABackslashKeepsACommaInAValue) {
  const MountOptions options = parsed(R"(key-file=/a\,b\\c=d,ro)");
  EXPECT_EQ(options.key_file, R"(/a,b\c=d)");
  EXPECT_TRUE(options.read_only);
  EXPECT_EQ(parsed(R"(key-file=/a\,allow_other)").allow_other, false);
  EXPECT_EQ(parsed("key-file=end\\").key_file, "end\\");
}

TEST(MountWords, OthersAreRefusedByName) {
  for (const char* text : {"nonsense", "suid", "dev", "sync", "async", "strictatime", "lazytime",
                           "ro=1", "allow_other=1", "uid", "key-file", "container=/x",
                           "key_file=/k", "fsname=x", "subtype=x", "=", "=x"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
  EXPECT_NE(refusal("ro,nonsense").find("nonsense"), std::string::npos);
  EXPECT_NE(refusal("allow_other,allow_root").find("exclude"), std::string::npos);
}

TEST(MountWords, ValuesOutOfRangeAreRefusedNamingTheOption) {
  for (const char* text :
       {"uid=x", "uid=4294967295", "gid=-1", "umask=9", "umask=1000", "workers=", "workers=257",
        "key-slot=32", "key-slot=-1", "max-read-size=2G", "max-write-size=1.5K", "log-level=loud",
        "require-cipher=aes", "uuid=", "key-file=", "engine=", "offload-unit=page",
        "header=", "log-file="}) {
    const std::string option = std::string(text).substr(0, std::string(text).find('='));
    EXPECT_EQ(refusal(text).substr(0, option.size()), option) << text;
  }
}

}  // namespace
}  // namespace cryptimg
