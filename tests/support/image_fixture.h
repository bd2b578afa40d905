// SPDX-License-Identifier: GPL-3.0-or-later
//
// An EncryptedImage over memory with a FakeEngine and a FaultyDevice between, and a way to read and
// write it synchronously as the edge does: cover, buffer of any alignment, submit, wait.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "tests/support/fake_engine.h"
#include "tests/support/faulty_device.h"
#include "tests/support/memory_device.h"

namespace cryptimg::test {

// A request with its buffer and its outcome. For one thread that submits and waits.
class TestRequest {
 public:
  // A read, or a write of `payload`. The buffer is deliberately not aligned.
  TestRequest(const EncryptedImage& image, IoRequest::Kind kind, std::uint64_t offset_bytes,
              std::uint64_t length_bytes, Bytes payload = {}) {
    request_.kind = kind;
    request_.offset_bytes = offset_bytes;
    request_.length_bytes = length_bytes;
    head_ = offset_bytes % image.sector_size_bytes();
    const std::uint64_t cover_bytes =
        length_bytes == 0 ? 0 : image.cover(offset_bytes, length_bytes).length_bytes;
    memory_.assign(cover_bytes + 1, std::byte{0xEE});
    request_.buffer = MutableBytes(memory_).subspan(1);
    if (!payload.empty()) {
      std::memcpy(request_.buffer.data() + head_, payload.data(), payload.size());
    }
    request_.context = this;
    request_.completion = [](IoRequest& request, Status status) noexcept {
      static_cast<TestRequest*>(request.context)->complete(std::move(status));
    };
  }

  IoRequest& request() { return request_; }
  Status run(EncryptedImage& image) {
    image.submit(request_);
    return wait();
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return completions_ > 0; });
    return status_;
  }
  unsigned completions() {
    const std::lock_guard lock(mutex_);
    return completions_;
  }
  // The caller's part of the buffer, and all of it.
  [[nodiscard]] Bytes bytes() const {
    return Bytes(request_.buffer).subspan(head_, request_.length_bytes);
  }
  [[nodiscard]] Bytes buffer() const { return request_.buffer; }

 private:
  void complete(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    ++completions_;
    changed_.notify_all();
  }

  IoRequest request_;
  std::size_t head_ = 0;
  std::vector<std::byte> memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned completions_ = 0;  // guarded by mutex_
  Status status_;             // guarded by mutex_
};

class ImageTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kSectorBytes = 512;

  // Each test makes its image with what it needs.
  void make(std::uint64_t size_bytes, unsigned workers, std::uint32_t chunk_bytes = 0,
            unsigned max_callers = 4, bool read_only = false,
            std::uint32_t sector_size_bytes = kSectorBytes) {
    auto memory = std::make_unique<MemoryDevice>(size_bytes);
    memory_ = memory.get();
    auto faulty = std::make_unique<FaultyDevice>(std::move(memory));
    device_ = faulty.get();
    for (std::uint64_t done = 0; done < size_bytes; done += sector_size_bytes) {
      const MutableBytes sector = memory_->content().subspan(done, sector_size_bytes);
      fake_cipher_sector(done / sector_size_bytes, sector, sector);
    }
    CipherSpec spec;
    spec.sector_size_bytes = sector_size_bytes;
    ImageOptions options;
    options.size_bytes = size_bytes;
    options.read_only = read_only;
    options.workers = workers;
    options.max_read_size_bytes = chunk_bytes;
    options.max_write_size_bytes = chunk_bytes;
    options.readahead_bytes = readahead_bytes_;
    options.readahead_priority = ReadAhead::Priority::normal;
    auto image = EncryptedImage::create(std::move(faulty), FakeEngine(control_), spec, Secret(),
                                        options, max_callers);
    ASSERT_TRUE(image) << image.error().message;
    image_ = std::move(*image);
  }

  void TearDown() override {
    image_.reset();
    EXPECT_EQ(control_.violations, 0U) << "the pipeline broke the contract of CipherSession";
  }

  Status write(std::uint64_t offset_bytes, Bytes payload, bool durable = false) {
    TestRequest write(*image_, IoRequest::Kind::write, offset_bytes, payload.size(), payload);
    write.request().durable = durable;
    return write.run(*image_);
  }
  std::vector<std::byte> read(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
    TestRequest read(*image_, IoRequest::Kind::read, offset_bytes, length_bytes);
    const Status status = read.run(*image_);
    EXPECT_TRUE(status);
    return {read.bytes().begin(), read.bytes().end()};
  }

  static std::vector<std::byte> filled(std::size_t size_bytes, unsigned value) {
    return std::vector<std::byte>(size_bytes, static_cast<std::byte>(value));
  }

  std::uint64_t readahead_bytes_ = 0;  // for the next make()
  FakeControl control_;
  MemoryDevice* memory_ = nullptr;  // owned by the image
  FaultyDevice* device_ = nullptr;  // owned by the image
  std::unique_ptr<EncryptedImage> image_;
};

}  // namespace cryptimg::test
